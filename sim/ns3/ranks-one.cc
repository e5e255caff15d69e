/*
 * unetmm: cards in ns-3: a run of one process
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ranks.h"

#include <cstdlib>

#include <ns3/abort.h>

#include "unetmm-device.h"

using namespace ns3;

namespace unetmm {

void
RanksBegin(int *argc, char ***argv)
{
}

void
RanksEnd()
{
}

void
RanksStop(int status)
{
    exit(status);
}

unsigned
RanksCount()
{
    return 1;
}

unsigned
RanksOwn()
{
    return 0;
}

void
RanksShare(std::string &text)
{
}

void
RanksGather(std::string &text)
{
}

void
RanksListen(Ptr<UnetmmDevice> device)
{
}

void
RanksSend(Ptr<Packet> packet, Time when, Ptr<UnetmmDevice> device)
{
    NS_ABORT_MSG("a run of one process has no other one");
}

} // namespace unetmm
