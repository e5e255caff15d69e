/*
 * unetmm: the papers' experiments on ns-3's scheduler: ns-3
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "engine.h"

#include <ns3/simulator.h>

#include "unetmm-device.h"

using namespace ns3;
using namespace unetmm;

namespace {

/* A card's end of the cable, without a host. */
class CardDevice : public UnetmmDevice
{
  public:
    using UnetmmDevice::Until;

    unsigned number = 0;

    void Arrive(Ptr<Packet> packet) override
    {
        std::vector<uint8_t> bytes(packet->GetSize());

        packet->CopyData(bytes.data(), bytes.size());
        engine_arrives(number, ArrivedAt(), bytes.data(), bytes.size());
    }
};

Ptr<CardDevice> g_cards[2];
bool g_resolution = false;

} // namespace

void
ns3_new(const Config *c)
{
    auto cable = CreateObject<UnetmmCable>();

    if (!g_resolution)
    {
        Time::SetResolution(Time::FS);
        g_resolution = true;
    }
    for (unsigned i = 0; i < 2; i++)
    {
        g_cards[i] = CreateObject<CardDevice>();
        g_cards[i]->number = i;
        CreateObject<Node>()->AddDevice(g_cards[i]);
        g_cards[i]->Plug(c, 0, i, cable);
    }
}

void
ns3_free(void)
{
    g_cards[0] = g_cards[1] = nullptr;
    Simulator::Destroy();
}

void
ns3_at(int64_t when, void *event)
{
    Simulator::Schedule(CardDevice::Until(when), &engine_event, event);
}

void
ns3_frame(unsigned card, int64_t when, const void *frame, size_t bytes)
{
    g_cards[card]->Transmit(when,
                            Create<Packet>(static_cast<const uint8_t *>(frame),
                                           bytes));
}

void
ns3_run(void)
{
    Simulator::Run();
}

void
ns3_stop(void)
{
    Simulator::Stop();
}
