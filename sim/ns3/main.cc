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

#include <ns3/abort.h>
#include <ns3/boolean.h>
#include <ns3/nstime.h>
#include <ns3/pcap-file-wrapper.h>
#include <ns3/simulator.h>
#include <ns3/trace-helper.h>

#include "ranks.h"
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

/* Is its node in this process? */
bool
IsOwn(Ptr<NetDevice> device)
{
    return device->GetNode()->GetSystemId() == RanksOwn();
}

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
            if (IsOwn(device))
            {
                RanksListen(device);
            }
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
    std::unique_ptr<unsigned, decltype(&free)> ranks(
        config_ranks(net.config, RanksCount()), free);

    for (unsigned i = 0; i < hosts + config_switches(net.config); i++)
    {
        net.nodes.push_back(CreateObject<Node>(ranks.get()[i]));
    }
    net.cards.resize(hosts);
    BuildLinks(net);
    JoinPorts(net);
    for (unsigned i = 0; i < hosts; i++)
    {
        if (IsOwn(net.cards[i]))
        {
            net.cards[i]->Make(i);
        }
    }
    for (const auto &card : net.cards)
    {
        if (card->GetHost())
        {
            card->Start();
        }
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

        if (!net.cards[i]->GetHost())
        {
            continue;
        }
        file->SetAttribute("NanosecMode", BooleanValue(true));
        file->Open(name, std::ios::out);
        file->Init(PcapHelper::DLT_EN10MB);
        if (file->Fail())
        {
            fprintf(stderr, "unetmm-scale: %s cannot be written\n", name.c_str());
            RanksStop(2);
        }
        for (const char *source : {"MacTx", "MacRx"})
        {
            net.cards[i]->TraceConnectWithoutContext(
                source, MakeBoundCallback(&WriteFrame, file));
        }
    }
}

/* A stream that fills a string. */
class Lines
{
  public:
    Lines()
        : m_file(open_memstream(&m_text, &m_bytes))
    {
        NS_ABORT_MSG_IF(!m_file, "there is no memory for the rows");
    }

    ~Lines()
    {
        fclose(m_file);
        free(m_text);
    }

    FILE *File()
    {
        return m_file;
    }

    std::string Text()
    {
        fflush(m_file);
        return std::string(m_text, m_bytes);
    }

  private:
    char *m_text = nullptr;
    size_t m_bytes = 0;
    FILE *m_file;
};

void
PrintLinks(const Network &net, FILE *to)
{
    for (unsigned i = 0; i < net.ends.size(); i++)
    {
        const WireCounts *c = net.ends[i]->Counts();
        auto port = DynamicCast<UnetmmSwitchPort>(net.ends[i]);

        if (!IsOwn(net.ends[i]))
        {
            continue;
        }
        fprintf(to, "{\"link\": %u, \"from\": %u, \"to\": %u, \"frames\": %" PRIu64
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

/*
 * ns-3 has an event for each node and each device, and for the end of the run,
 * in every process: they count once.
 */
void
PrintRun(const Network &net, FILE *to)
{
    uint64_t same = RanksOwn() ? net.nodes.size() + net.ends.size() + 1 : 0;
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    fprintf(to, "{\"run\": %u, \"events\": %" PRIu64 ", \"cpu_s\": %.3f, \"kib\": %ld}\n",
            RanksOwn(), Simulator::GetEventCount() - same, Processor(),
            used.ru_maxrss);
}

void
Run(const Config *config, const char *pcap)
{
    Network net{config, {}, {}, {}};
    std::string rows;
    Lines lines;

    Build(net);
    if (pcap)
    {
        Capture(net, pcap);
    }
    Simulator::Stop(PicoSeconds(config_until(config)));
    Simulator::Run();
    for (const auto &card : net.cards)
    {
        if (card->GetHost())
        {
            host_print(card->GetHost(), lines.File());
        }
    }
    PrintLinks(net, lines.File());
    PrintRun(net, lines.File());
    rows = lines.Text();
    RanksGather(rows);
    if (RanksOwn() == 0)
    {
        fputs(rows.c_str(), stdout);
        fflush(stdout);
    }
    Simulator::Destroy();
}

/* ---- Options ---------------------------------------------------------------- */

struct Options
{
    const char *pcap = nullptr;
    const char *trace = nullptr;
};

bool
ReadOptions(int argc, char **argv, Options &options)
{
    for (int i = 1; i < argc; i += 2)
    {
        const char **option = !strcmp(argv[i], "--pcap") ? &options.pcap :
                              !strcmp(argv[i], "--trace") ? &options.trace : nullptr;

        if (!option || *option || i + 1 == argc)
        {
            return false;
        }
        *option = argv[i + 1];
    }
    return true;
}

/* The first process alone has the description and the trace.  "": no file */
std::string
ReadFile(FILE *file)
{
    std::string text;
    char part[4096];
    size_t n;

    if (file && RanksOwn() == 0)
    {
        while ((n = fread(part, 1, sizeof(part), file)) > 0)
        {
            text.append(part, n);
        }
    }
    RanksShare(text);
    return text;
}

FILE *
OpenText(std::string &text)
{
    /* fmemopen() has no files without bytes. */
    return text.empty() ? fopen("/dev/null", "r") : fmemopen(text.data(), text.size(), "r");
}

Config *
ReadConfig(const Options &options, char **why)
{
    FILE *file = options.trace && RanksOwn() == 0 ? fopen(options.trace, "r") : nullptr;
    std::string missing = options.trace && RanksOwn() == 0 && !file ? "1" : "";
    std::string description = ReadFile(stdin);
    std::string sends = ReadFile(file);
    FILE *from = OpenText(description);
    FILE *trace = options.trace ? OpenText(sends) : nullptr;
    Config *config = nullptr;

    if (file)
    {
        fclose(file);
    }
    RanksShare(missing);
    if (!missing.empty())
    {
        *why = strdup("the file of --trace cannot be read");
    }
    else if (from && (trace || !options.trace))
    {
        config = config_read(from, trace, why);
    }
    else
    {
        *why = strdup("there is no memory for the description");
    }
    for (FILE *open : {from, trace})
    {
        if (open)
        {
            fclose(open);
        }
    }
    return config;
}

/* The first process says it. */
int
Refuse(const char *why)
{
    if (RanksOwn() == 0)
    {
        fprintf(stderr, "unetmm-scale: %s\n", why);
    }
    return 2;
}

int
Main(int argc, char **argv)
{
    Options options;
    Config *config;
    char *why = nullptr;

    if (!ReadOptions(argc, argv, options))
    {
        return Refuse("use --list, or --pcap PREFIX and --trace FILE");
    }
    config = ReadConfig(options, &why);
    if (!config)
    {
        Refuse(why);
        free(why);
        return 2;
    }
    if (RanksCount() > config_hosts(config))
    {
        config_free(config);
        return Refuse("a run has no more processes than hosts");
    }
    Run(config, options.pcap);
    config_free(config);
    return 0;
}

} // namespace

int
main(int argc, char **argv)
{
    int status;

    if (argc == 2 && !strcmp(argv[1], "--list"))
    {
        config_list(stdout);
        return 0;
    }
    RanksBegin(&argc, &argv);
    Time::SetResolution(Time::FS);
    status = Main(argc, argv);
    RanksEnd();
    return status;
}
