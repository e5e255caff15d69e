/*
 * unetmm: cards in ns-3: a run of several processes
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ranks.h"

#include <climits>
#include <cstdlib>
#include <vector>

#include <mpi.h>

#include <ns3/abort.h>
#include <ns3/global-value.h>
#include <ns3/mpi-interface.h>
#include <ns3/mpi-receiver.h>
#include <ns3/string.h>

#include "unetmm-device.h"

using namespace ns3;

namespace unetmm {

void
RanksBegin(int *argc, char ***argv)
{
    GlobalValue::Bind("SimulatorImplementationType",
                      StringValue("ns3::DistributedSimulatorImpl"));
    MpiInterface::Enable(argc, argv);
}

void
RanksEnd()
{
    MpiInterface::Disable();
}

void
RanksStop(int status)
{
    MPI_Abort(MpiInterface::GetCommunicator(), status);
    abort();
}

unsigned
RanksCount()
{
    return MpiInterface::GetSize();
}

unsigned
RanksOwn()
{
    return MpiInterface::GetSystemId();
}

static int
Bytes(const std::string &text)
{
    NS_ABORT_MSG_IF(text.size() > INT_MAX, "a text is too long for MPI");
    return static_cast<int>(text.size());
}

void
RanksShare(std::string &text)
{
    int bytes = Bytes(text);

    MPI_Bcast(&bytes, 1, MPI_INT, 0, MpiInterface::GetCommunicator());
    text.resize(bytes);
    MPI_Bcast(text.data(), bytes, MPI_CHAR, 0, MpiInterface::GetCommunicator());
}

void
RanksGather(std::string &text)
{
    MPI_Comm all = MpiInterface::GetCommunicator();
    std::vector<int> bytes(RanksCount());
    std::vector<int> at(RanksCount());
    int own = Bytes(text);
    std::string whole;

    MPI_Gather(&own, 1, MPI_INT, bytes.data(), 1, MPI_INT, 0, all);
    if (RanksOwn() == 0)
    {
        size_t sum = 0;

        for (unsigned i = 0; i < bytes.size(); i++)
        {
            at[i] = static_cast<int>(sum);
            sum += bytes[i];
            NS_ABORT_MSG_IF(sum > INT_MAX, "the rows are too long for MPI");
        }
        whole.resize(sum);
    }
    MPI_Gatherv(text.data(), own, MPI_CHAR, whole.data(), bytes.data(),
                at.data(), MPI_CHAR, 0, all);
    if (RanksOwn() == 0)
    {
        text = whole;
    }
}

void
RanksListen(Ptr<UnetmmDevice> device)
{
    auto receiver = CreateObject<MpiReceiver>();

    receiver->SetReceiveCallback(
        MakeCallback(&UnetmmDevice::Arrive, PeekPointer(device)));
    device->AggregateObject(receiver);
}

void
RanksSend(Ptr<Packet> packet, Time when, Ptr<UnetmmDevice> device)
{
    MpiInterface::SendPacket(packet, when, device->GetNode()->GetId(),
                             device->GetIfIndex());
}

} // namespace unetmm
