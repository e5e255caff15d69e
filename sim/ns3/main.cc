/*
 * unetmm: hosts with cards in a network simulated by ns-3
 *
 *   unetmm-scale [--pcap PREFIX] [--trace FILE] < DESCRIPTION
 *                            lines of JSON: each host, each direction of a link,
 *                            the run; a file for workload replay
 *   unetmm-scale --list      workloads and parameters
 *
 * scripts/scale writes the description (sim/scale/config.c) and reads the lines.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <cinttypes>
#include <cstring>
#include <iostream>
#include <sys/resource.h>
#include <time.h>

#include <ns3/boolean.h>
#include <ns3/nstime.h>
#include <ns3/pcap-file-wrapper.h>
#include <ns3/simulator.h>
#include <ns3/trace-helper.h>

#include "unetmm-device.h"

using namespace ns3;
using namespace unetmm;

namespace {

struct Network
{
    const Config *config;
    std::vector<Ptr<Node>> nodes;
    std::vector<Ptr<UnetmmNetDevice>> cards;
    std::vector<Ptr<UnetmmDevice>> ends;    /* two of each link */
};

void
BuildLinks(Network &net)
{
    for (unsigned link = 0; link < config_links(net.config); link++)
    {
        auto cable = CreateObject<UnetmmCable>();

        cable->SetAttribute("Delay",
                            TimeValue(PicoSeconds(config_delay(net.config, link))));
        for (unsigned side = 0; side < 2; side++)
        {
            unsigned end = config_end(net.config, link, side);
            Ptr<UnetmmDevice> device;

            if (end < config_hosts(net.config))
            {
                net.cards[end] = CreateObject<UnetmmNetDevice>();
                device = net.cards[end];
            }
            else
            {
                device = CreateObject<UnetmmSwitchPort>();
            }
            net.nodes[end]->AddDevice(device);
            device->Plug(net.config, link, side, cable);
            net.ends.push_back(device);
        }
    }
}

/* The ports of a switch know each other. */
void
JoinPorts(Network &net)
{
    for (const auto &node : net.nodes)
    {
        auto ports = std::make_shared<PortsByLink>();

        for (uint32_t i = 0; i < node->GetNDevices(); i++)
        {
            auto port = DynamicCast<UnetmmSwitchPort>(node->GetDevice(i));

            if (port)
            {
                port->SetPorts(ports);
            }
        }
    }
}

void
Build(Network &net)
{
    unsigned hosts = config_hosts(net.config);

    for (unsigned i = 0; i < hosts + config_switches(net.config); i++)
    {
        net.nodes.push_back(CreateObject<Node>());
    }
    net.cards.resize(hosts);
    BuildLinks(net);
    JoinPorts(net);
    for (unsigned i = 0; i < hosts; i++)
    {
        net.cards[i]->Make(i);
    }
    for (unsigned i = 0; i < hosts; i++)
    {
        net.cards[i]->Start();
    }
}

void
WriteFrame(Ptr<PcapFileWrapper> file, Ptr<const Packet> packet)
{
    file->Write(Simulator::Now(), packet);
}

/* A file for each card: frames that come in and go out. */
void
Capture(Network &net, const char *prefix)
{
    for (unsigned i = 0; i < net.cards.size(); i++)
    {
        auto name = std::string(prefix) + "-" + std::to_string(i) + ".pcap";
        auto file = CreateObject<PcapFileWrapper>();

        file->SetAttribute("NanosecMode", BooleanValue(true));
        file->Open(name, std::ios::out);
        file->Init(PcapHelper::DLT_EN10MB);
        if (file->Fail())
        {
            fprintf(stderr, "unetmm-scale: %s cannot be written\n", name.c_str());
            exit(2);
        }
        for (const char *source : {"MacTx", "MacRx"})
        {
            net.cards[i]->TraceConnectWithoutContext(
                source, MakeBoundCallback(&WriteFrame, file));
        }
    }
}

void
PrintLinks(const Network &net)
{
    for (unsigned i = 0; i < net.ends.size(); i++)
    {
        const WireCounts *c = net.ends[i]->Counts();
        auto port = DynamicCast<UnetmmSwitchPort>(net.ends[i]);

        printf("{\"link\": %u, \"from\": %u, \"to\": %u, \"frames\": %" PRIu64
               ", \"bytes\": %" PRIu64 ", \"full\": %" PRIu64 ", \"lost\": %" PRIu64
               ", \"gone\": %" PRIu64 ", \"stray\": %" PRIu64 ", \"queue\": %" PRIu64 ", \"busy\": %" PRId64
               "}\n",
               i / 2, config_end(net.config, i / 2, i % 2),
               config_end(net.config, i / 2, 1 - i % 2), c->frames, c->bytes,
               c->full, c->lost, c->gone + (port ? port->StrayBytes() : 0),
               port ? port->Stray() : 0, c->most, c->busy);
    }
}

double
Processor()
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

void
Run(const Config *config, const char *pcap)
{
    Network net{config, {}, {}, {}};
    struct rusage used;

    Build(net);
    if (pcap)
    {
        Capture(net, pcap);
    }
    Simulator::Stop(PicoSeconds(config_until(config)));
    Simulator::Run();
    for (const auto &card : net.cards)
    {
        host_print(card->GetHost(), stdout);
    }
    PrintLinks(net);
    getrusage(RUSAGE_SELF, &used);
    printf("{\"run\": 1, \"events\": %" PRIu64
           ", \"cpu_s\": %.3f, \"kib\": %ld}\n",
           Simulator::GetEventCount(), Processor(), used.ru_maxrss);
    Simulator::Destroy();
}

} // namespace

int
main(int argc, char **argv)
{
    const char *pcap = nullptr;
    FILE *trace = nullptr;
    Config *config;
    char *why;

    if (argc == 2 && !strcmp(argv[1], "--list"))
    {
        config_list(stdout);
        return 0;
    }
    for (int i = 1; i < argc; i += 2)
    {
        if (i + 1 < argc && !strcmp(argv[i], "--pcap"))
        {
            pcap = argv[i + 1];
        }
        else if (i + 1 < argc && !strcmp(argv[i], "--trace") && !trace)
        {
            trace = fopen(argv[i + 1], "r");
        }
        if (!(i + 1 < argc && (pcap == argv[i + 1] || trace)))
        {
            fprintf(stderr, "unetmm-scale: use --list, or --pcap PREFIX and --trace FILE\n");
            return 2;
        }
    }
    config = config_read(stdin, trace, &why);
    if (trace)
    {
        fclose(trace);
    }
    if (!config)
    {
        fprintf(stderr, "unetmm-scale: %s\n", why);
        free(why);
        return 2;
    }
    Time::SetResolution(Time::PS);
    Run(config, pcap);
    config_free(config);
    return 0;
}
