/*
 * unetmm: cards in ns-3: devices, and the cable between two of them
 *
 * UnetmmDevice is an end of a cable: the functions of every NetDevice of ns-3,
 * and the wire of its direction.  UnetmmNetDevice has a host with a card behind
 * it, UnetmmSwitchPort a switch, of which each node has one at most.  Frames are
 * ns-3 packets with Ethernet's header, so Wireshark reads their traces.
 *
 * ORDER: ns-3 runs events of one time in the order in which they were made, and
 * that of frames from several processes is left to chance.  So ns-3 counts in
 * femtoseconds, hosts and wires in picoseconds, and a frame arrives Turn()
 * behind its time: behind the node's own events of that time, and in the order
 * of the node's ports.  Each node sees the same order with any number of
 * processes.  A picosecond has room for SCALE_PORTS ports.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_DEVICE_H
#define UNETMM_DEVICE_H

#include <memory>
#include <unordered_map>
#include <vector>

#include <ns3/channel.h>
#include <ns3/net-device.h>
#include <ns3/node.h>
#include <ns3/nstime.h>
#include <ns3/packet.h>
#include <ns3/traced-callback.h>

#include "sim.h"

namespace unetmm {

class UnetmmDevice;

/* A cable of two ends: ns-3's distributed simulator asks for its Delay. */
class UnetmmCable : public ns3::Channel
{
  public:
    static ns3::TypeId GetTypeId();
    void Attach(ns3::Ptr<UnetmmDevice> device);
    std::size_t GetNDevices() const override;
    ns3::Ptr<ns3::NetDevice> GetDevice(std::size_t i) const override;
    ns3::Ptr<UnetmmDevice> Other(const UnetmmDevice *device) const;

  private:
    std::vector<ns3::Ptr<UnetmmDevice>> m_ends;
    ns3::Time m_delay;
};

class UnetmmDevice : public ns3::NetDevice
{
  public:
    static ns3::TypeId GetTypeId();
    UnetmmDevice();
    ~UnetmmDevice() override;

    /* The device is the end `side` of this link of the description. */
    void Plug(const Config *config, unsigned link, unsigned side,
              ns3::Ptr<UnetmmCable> cable);
    /* At `when`, which may be after now, the frame is there to go out. */
    void Transmit(int64_t when, ns3::Ptr<ns3::Packet> packet);
    const WireCounts *Counts() const;
    /* The packet's first bit goes to the wire now. */
    void Begin(ns3::Ptr<ns3::Packet> packet);
    /* The packet's last bit is here: it came at ArrivedAt(). */
    virtual void Arrive(ns3::Ptr<ns3::Packet> packet) = 0;

    void SetIfIndex(const uint32_t index) override;
    uint32_t GetIfIndex() const override;
    ns3::Ptr<ns3::Channel> GetChannel() const override;
    void SetAddress(ns3::Address address) override;
    ns3::Address GetAddress() const override;
    bool SetMtu(const uint16_t mtu) override;
    uint16_t GetMtu() const override;
    bool IsLinkUp() const override;
    void AddLinkChangeCallback(ns3::Callback<void> callback) override;
    bool IsBroadcast() const override;
    ns3::Address GetBroadcast() const override;
    bool IsMulticast() const override;
    ns3::Address GetMulticast(ns3::Ipv4Address group) const override;
    ns3::Address GetMulticast(ns3::Ipv6Address group) const override;
    bool IsBridge() const override;
    bool IsPointToPoint() const override;
    bool Send(ns3::Ptr<ns3::Packet> packet, const ns3::Address &to,
              uint16_t protocol) override;
    bool SendFrom(ns3::Ptr<ns3::Packet> packet, const ns3::Address &from,
                  const ns3::Address &to, uint16_t protocol) override;
    ns3::Ptr<ns3::Node> GetNode() const override;
    void SetNode(ns3::Ptr<ns3::Node> node) override;
    bool NeedsArp() const override;
    void SetReceiveCallback(ReceiveCallback callback) override;
    void SetPromiscReceiveCallback(PromiscReceiveCallback callback) override;
    bool SupportsSendFrom() const override;

  protected:
    void DoDispose() override;
    /* From now to that time, which may be that of ArrivedAt(). */
    static ns3::Time Until(int64_t when);
    int64_t ArrivedAt() const;

    const Config *m_config;
    unsigned m_link;
    /* Of ns-3's usual names: a frame that goes out, comes in, is dropped. */
    ns3::TracedCallback<ns3::Ptr<const ns3::Packet>> m_tx, m_rx, m_drop;

  private:
    ns3::Time Turn() const;

    ns3::Ptr<ns3::Node> m_node;
    ns3::Ptr<UnetmmCable> m_cable;
    std::unique_ptr<Wire, decltype(&wire_free)> m_wire;
    ns3::Address m_address;
    uint32_t m_index;
    uint16_t m_mtu;
};

/* A card: its host is made by Plug()'s caller, and started by Start(). */
class UnetmmNetDevice : public UnetmmDevice
{
  public:
    static ns3::TypeId GetTypeId();
    UnetmmNetDevice();
    void Make(unsigned number);
    void Start();
    void Arrive(ns3::Ptr<ns3::Packet> packet) override;
    const Host *GetHost() const;

  protected:
    void DoDispose() override;

  private:
    static void At(void *port, int64_t when, void *event);
    static void Frame(void *port, int64_t when, const void *frame,
                      size_t bytes);

    std::unique_ptr<Host, decltype(&host_free)> m_host;
};

using PortsByLink = std::unordered_map<unsigned, UnetmmDevice *>;

/* A port of a switch: a frame that comes goes out of the port that it names. */
class UnetmmSwitchPort : public UnetmmDevice
{
  public:
    static ns3::TypeId GetTypeId();
    void Arrive(ns3::Ptr<ns3::Packet> packet) override;
    /* All ports of a switch have one table; each enters itself. */
    void SetPorts(std::shared_ptr<PortsByLink> ports);
    /* Frames, and their bytes, that no route is known for. */
    uint64_t Stray() const;
    uint64_t StrayBytes() const;

  private:
    std::shared_ptr<PortsByLink> m_ports;
    uint64_t m_stray = 0;
    uint64_t m_strayBytes = 0;
};

} // namespace unetmm

#endif /* UNETMM_DEVICE_H */
