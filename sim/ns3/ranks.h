/*
 * unetmm: cards in ns-3: processes that share the nodes of one run
 *
 * ranks-one.cc is for a run of one process, with Debian's ns-3; ranks-mpi.cc
 * for one of several, by ns-3's distributed simulator over MPI.  A node is in
 * the process that has its number (Node::GetSystemId()); all processes know all
 * nodes and cables.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_RANKS_H
#define UNETMM_RANKS_H

#include <string>

#include <ns3/nstime.h>
#include <ns3/packet.h>

namespace unetmm {

class UnetmmDevice;

/* Before any other call of ns-3's simulator. */
void RanksBegin(int *argc, char ***argv);
void RanksEnd();
/* All processes end now. */
[[noreturn]] void RanksStop(int status);
unsigned RanksCount();
/* This process, from 0 on. */
unsigned RanksOwn();
/* All processes have the text of the first one then. */
void RanksShare(std::string &text);
/* The first process has the texts of all, in the order of their numbers. */
void RanksGather(std::string &text);
/* Frames of other processes come to the device, which is in this one. */
void RanksListen(ns3::Ptr<UnetmmDevice> device);
/* The packet comes then to the device, which is in another process. */
void RanksSend(ns3::Ptr<ns3::Packet> packet, ns3::Time when,
               ns3::Ptr<UnetmmDevice> device);

} // namespace unetmm

#endif /* UNETMM_RANKS_H */
