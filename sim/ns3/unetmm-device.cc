/*
 * unetmm: cards in ns-3: devices, and the cable between two of them
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "unetmm-device.h"

#include <ns3/log.h>
#include <ns3/mac48-address.h>
#include <ns3/nstime.h>
#include <ns3/simulator.h>
#include <ns3/trace-source-accessor.h>

#include "ranks.h"

using namespace ns3;

NS_LOG_COMPONENT_DEFINE("UnetmmDevice");

namespace unetmm {

NS_OBJECT_ENSURE_REGISTERED(UnetmmCable);
NS_OBJECT_ENSURE_REGISTERED(UnetmmDevice);
NS_OBJECT_ENSURE_REGISTERED(UnetmmNetDevice);
NS_OBJECT_ENSURE_REGISTERED(UnetmmSwitchPort);

/* ---- The cable ------------------------------------------------------------ */

TypeId
UnetmmCable::GetTypeId()
{
    static TypeId id =
        TypeId("unetmm::UnetmmCable")
            .SetParent<Channel>()
            .AddConstructor<UnetmmCable>()
            .AddAttribute("Delay", "time of a bit from end to end",
                          TimeValue(Seconds(0)),
                          MakeTimeAccessor(&UnetmmCable::m_delay),
                          MakeTimeChecker());
    return id;
}

void
UnetmmCable::Attach(Ptr<UnetmmDevice> device)
{
    NS_ABORT_IF(m_ends.size() == 2);
    m_ends.push_back(device);
}

std::size_t
UnetmmCable::GetNDevices() const
{
    return m_ends.size();
}

Ptr<NetDevice>
UnetmmCable::GetDevice(std::size_t i) const
{
    return m_ends.at(i);
}

Ptr<UnetmmDevice>
UnetmmCable::Other(const UnetmmDevice *device) const
{
    return m_ends.at(PeekPointer(m_ends.at(0)) == device ? 1 : 0);
}

/* ---- A device ------------------------------------------------------------- */

TypeId
UnetmmDevice::GetTypeId()
{
    static TypeId id =
        TypeId("unetmm::UnetmmDevice")
            .SetParent<NetDevice>()
            .AddTraceSource("MacTx", "a frame goes to the wire",
                            MakeTraceSourceAccessor(&UnetmmDevice::m_tx),
                            "ns3::Packet::TracedCallback")
            .AddTraceSource("MacRx", "a frame has come",
                            MakeTraceSourceAccessor(&UnetmmDevice::m_rx),
                            "ns3::Packet::TracedCallback")
            .AddTraceSource("PhyTxDrop", "the queue is full, or the frame is lost",
                            MakeTraceSourceAccessor(&UnetmmDevice::m_drop),
                            "ns3::Packet::TracedCallback");
    return id;
}

UnetmmDevice::UnetmmDevice()
    : m_config(nullptr),
      m_link(0),
      m_wire(nullptr, wire_free),
      m_index(0),
      m_mtu(9000)
{
}

UnetmmDevice::~UnetmmDevice() = default;

void
UnetmmDevice::DoDispose()
{
    m_node = nullptr;
    m_cable = nullptr;
    NetDevice::DoDispose();
}

void
UnetmmDevice::Plug(const Config *config, unsigned link, unsigned side,
                   Ptr<UnetmmCable> cable)
{
    m_config = config;
    m_link = link;
    m_wire.reset(wire_new(config, link, side));
    m_cable = cable;
    cable->Attach(this);
}

void
UnetmmDevice::Transmit(int64_t when, Ptr<Packet> packet)
{
    Ptr<UnetmmDevice> to = m_cable->Other(this);
    int64_t begins;
    int64_t there;
    Time when_there;

    if (wire_take(m_wire.get(), when, packet->GetSize(), &begins, &there) !=
        WIRE_GOES)
    {
        m_drop(packet);
        return;
    }
    if (!m_tx.IsEmpty())
    {
        Simulator::Schedule(Until(begins), &UnetmmDevice::Begin, this, packet);
    }
    when_there = PicoSeconds(there) + to->Turn();
    if (to->GetNode()->GetSystemId() != Simulator::GetSystemId())
    {
        RanksSend(packet, when_there, to);
        return;
    }
    Simulator::ScheduleWithContext(to->GetNode()->GetId(),
                                   when_there - Simulator::Now(),
                                   &UnetmmDevice::Arrive,
                                   PeekPointer(to),
                                   packet);
}

Time
UnetmmDevice::Until(int64_t when)
{
    /* A turn has passed since a frame that has come now. */
    return Max(PicoSeconds(when) - Simulator::Now(), Time(0));
}

Time
UnetmmDevice::Turn() const
{
    return FemtoSeconds(1 + m_index);
}

int64_t
UnetmmDevice::ArrivedAt() const
{
    return (Simulator::Now() - Turn()).GetPicoSeconds();
}

void
UnetmmDevice::Begin(Ptr<Packet> packet)
{
    m_tx(packet);
}

const WireCounts *
UnetmmDevice::Counts() const
{
    return wire_counts(m_wire.get());
}

void
UnetmmDevice::SetIfIndex(const uint32_t index)
{
    m_index = index;
}

uint32_t
UnetmmDevice::GetIfIndex() const
{
    return m_index;
}

Ptr<Channel>
UnetmmDevice::GetChannel() const
{
    return m_cable;
}

void
UnetmmDevice::SetAddress(Address address)
{
    m_address = address;
}

Address
UnetmmDevice::GetAddress() const
{
    return m_address;
}

bool
UnetmmDevice::SetMtu(const uint16_t mtu)
{
    m_mtu = mtu;
    return true;
}

uint16_t
UnetmmDevice::GetMtu() const
{
    return m_mtu;
}

bool
UnetmmDevice::IsLinkUp() const
{
    return m_cable != nullptr;
}

/* The link's state never changes. */
void
UnetmmDevice::AddLinkChangeCallback(Callback<void> callback)
{
}

bool
UnetmmDevice::IsBroadcast() const
{
    return true;
}

Address
UnetmmDevice::GetBroadcast() const
{
    return Mac48Address::GetBroadcast();
}

bool
UnetmmDevice::IsMulticast() const
{
    return false;
}

Address
UnetmmDevice::GetMulticast(Ipv4Address group) const
{
    return Mac48Address::GetMulticast(group);
}

Address
UnetmmDevice::GetMulticast(Ipv6Address group) const
{
    return Mac48Address::GetMulticast(group);
}

bool
UnetmmDevice::IsBridge() const
{
    return false;
}

bool
UnetmmDevice::IsPointToPoint() const
{
    return true;
}

/* Programs of the card send by its queues, so ns-3's protocols cannot. */
bool
UnetmmDevice::Send(Ptr<Packet> packet, const Address &to, uint16_t protocol)
{
    return false;
}

bool
UnetmmDevice::SendFrom(Ptr<Packet> packet, const Address &from,
                       const Address &to, uint16_t protocol)
{
    return false;
}

Ptr<Node>
UnetmmDevice::GetNode() const
{
    return m_node;
}

void
UnetmmDevice::SetNode(Ptr<Node> node)
{
    m_node = node;
}

bool
UnetmmDevice::NeedsArp() const
{
    return false;
}

void
UnetmmDevice::SetReceiveCallback(ReceiveCallback callback)
{
}

void
UnetmmDevice::SetPromiscReceiveCallback(PromiscReceiveCallback callback)
{
}

bool
UnetmmDevice::SupportsSendFrom() const
{
    return false;
}

/* ---- A card ----------------------------------------------------------------- */

TypeId
UnetmmNetDevice::GetTypeId()
{
    static TypeId id = TypeId("unetmm::UnetmmNetDevice")
                           .SetParent<UnetmmDevice>()
                           .AddConstructor<UnetmmNetDevice>();
    return id;
}

UnetmmNetDevice::UnetmmNetDevice()
    : m_host(nullptr, host_free)
{
}

void
UnetmmNetDevice::DoDispose()
{
    m_host.reset();
    UnetmmDevice::DoDispose();
}

void
UnetmmNetDevice::At(void *port, int64_t when, void *event)
{
    auto device = static_cast<UnetmmNetDevice *>(port);

    Simulator::ScheduleWithContext(device->GetNode()->GetId(),
                                   Until(when),
                                   &host_event,
                                   device->m_host.get(),
                                   event);
}

void
UnetmmNetDevice::Frame(void *port, int64_t when, const void *frame,
                       size_t bytes)
{
    auto device = static_cast<UnetmmNetDevice *>(port);

    device->Transmit(when, Create<Packet>(static_cast<const uint8_t *>(frame),
                                          bytes));
}

void
UnetmmNetDevice::Make(unsigned number)
{
    static const HostOps ops = {At, Frame};

    m_host.reset(host_new(m_config, number, &ops, this));
}

void
UnetmmNetDevice::Start()
{
    host_start(m_host.get());
}

void
UnetmmNetDevice::Arrive(Ptr<Packet> packet)
{
    std::vector<uint8_t> bytes(packet->GetSize());

    m_rx(packet);
    packet->CopyData(bytes.data(), bytes.size());
    host_frame(m_host.get(), ArrivedAt(), bytes.data(), bytes.size());
}

const Host *
UnetmmNetDevice::GetHost() const
{
    return m_host.get();
}

/* ---- A switch ---------------------------------------------------------------- */

TypeId
UnetmmSwitchPort::GetTypeId()
{
    static TypeId id = TypeId("unetmm::UnetmmSwitchPort")
                           .SetParent<UnetmmDevice>()
                           .AddConstructor<UnetmmSwitchPort>();
    return id;
}

void
UnetmmSwitchPort::Arrive(Ptr<Packet> packet)
{
    uint8_t head[64] = {0};
    uint32_t bytes = packet->CopyData(head, sizeof(head));
    unsigned number = GetNode()->GetId() - config_hosts(m_config);
    int link = config_next(m_config, number, head, bytes);

    m_rx(packet);
    if (link < 0)
    {
        m_stray++;
        m_strayBytes += packet->GetSize();
        m_drop(packet);
        return;
    }
    m_ports->at(link)->Transmit(ArrivedAt() + config_switch_delay(m_config),
                                packet);
}

void
UnetmmSwitchPort::SetPorts(std::shared_ptr<PortsByLink> ports)
{
    m_ports = ports;
    (*m_ports)[m_link] = this;
}

uint64_t
UnetmmSwitchPort::Stray() const
{
    return m_stray;
}

uint64_t
UnetmmSwitchPort::StrayBytes() const
{
    return m_strayBytes;
}

} // namespace unetmm
