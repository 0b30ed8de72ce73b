namespace EdgeProf;

/// <summary>Preset for sampling rate and collected kinds.</summary>
public enum ProfileLevel
{
    /// <summary>The value of EDGEPROF_LEVEL, otherwise <see cref="Low"/>.</summary>
    Default = 0,

    /// <summary>19 samples per second of CPU time of each thread; nothing else is measured.</summary>
    Low = 1,

    /// <summary>97 samples per second of CPU time of each thread; also allocations, live heap, heap sizes and
    /// locks.</summary>
    Medium = 2,

    /// <summary>251 samples per second of CPU time of each thread, and every kind.
    /// Kernel timers tick at most HZ times a second (often 250 or 100); each sample then stands for more time.</summary>
    High = 3,
}

/// <summary>Kinds of measurements.</summary>
[Flags]
public enum ProfileKinds : uint
{
    /// <summary>In <see cref="ProfilerOptions"/>: the level's kinds.</summary>
    None = 0,

    /// <summary>Time on the CPU.</summary>
    Cpu = 1 << 1,

    /// <summary>Time in waits: locks, sleeps, network, disk.</summary>
    Wait = 1 << 2,

    /// <summary>Contended locks and the delay that they cause.</summary>
    Lock = 1 << 3,

    /// <summary>Allocations, by stack and type.</summary>
    Allocation = 1 << 4,

    /// <summary>Objects in use, by the stack that allocated them and type.</summary>
    LiveHeap = 1 << 5,

    /// <summary>Exceptions thrown, by type.</summary>
    Exception = 1 << 6,

    /// <summary>Pauses of the garbage collector.</summary>
    GarbageCollection = 1 << 7,

    /// <summary>The stacks of all threads; only on request.</summary>
    Threads = 1 << 8,

    /// <summary>Memory committed by the garbage collector, by generation, after its last collection.</summary>
    HeapSizes = 1 << 9,

    /// <summary>Bytes written to files, by stack and file; needs <c>EdgeProfWrites</c> in the project.</summary>
    Writes = 1 << 10,

    /// <summary>Time in fsync and the like; needs <c>EdgeProfWrites</c> in the project.</summary>
    Syncs = 1 << 11,

    /// <summary>All of them.</summary>
    All = Cpu | Wait | Lock | Allocation | LiveHeap | Exception | GarbageCollection | Threads | HeapSizes | Writes | Syncs,
}

/// <summary>Encoding of profiles.</summary>
public enum ProfileFormat
{
    /// <summary>edgeprof's own format: small, with a dictionary that is sent once.</summary>
    Compact = 0,

    /// <summary>pprof (perftools.profiles.Profile), compressed by gzip, with addresses and build ids; over HTTP by the push
    /// API of Grafana Pyroscope.</summary>
    Pprof = 1,
}

/// <summary>
/// Trusted CAs and this device's identity for https endpoints. Null properties are read from the environment
/// (EDGEPROF_TLS_*). By default the system CA bundle is trusted.
/// </summary>
public sealed class ProfilerTls
{
    /// <summary>File with the trusted CAs: PEM with any number of certificates, or DER with one.</summary>
    public string? AuthorityFile { get; set; }

    /// <summary>The same from memory.</summary>
    public byte[]? Authority { get; set; }

    /// <summary>"sha256//BASE64" of the server's public key, several separated by ';'. With a CA, both are checked.
    /// With a pin alone, only the public key is checked; issuer and host name are ignored.</summary>
    public string? Pin { get; set; }

    /// <summary>File with this device's certificate, with its chain: PEM or DER.</summary>
    public string? CertificateFile { get; set; }

    /// <summary>File with its key: PEM or DER, not encrypted.</summary>
    public string? KeyFile { get; set; }

    /// <summary>The certificate from memory.</summary>
    public byte[]? Certificate { get; set; }

    /// <summary>The key from memory; only read during the start.</summary>
    public byte[]? Key { get; set; }

    /// <summary>The name that the server's certificate must have. Default: the endpoint's host.</summary>
    public string? ServerName { get; set; }

    /// <summary>Ignores the validity dates of certificates while the device does not know the date. Needs a pin or your
    /// own CA. Without this option such a device does not connect until its clock is set.</summary>
    public bool AllowUnknownDate { get; set; }
}

/// <summary>
/// Incidents: a history of single samples in memory of a fixed size, which is delivered when something is noticed. A
/// property that is null or zero is read from EDGEPROF_INCIDENT and EDGEPROF_INCIDENT_LIMITS, or has its default value.
/// </summary>
public sealed class ProfilerIncidents
{
    /// <summary>Whether the profiler keeps a history. Null: if EDGEPROF_INCIDENT is 1.</summary>
    public bool? Enabled { get; set; }

    /// <summary>Size of the history, at least 16 KiB. 0: 48 KiB, which hold 110 seconds of one busy processor at level
    /// low.</summary>
    public long HistoryBytes { get; set; }

    /// <summary>How long the history goes on after something was noticed, at most a minute. Zero: 2 seconds.</summary>
    public TimeSpan Tail { get; set; }

    /// <summary>The limit of a span without one of its own: of local root spans of followed sources (<see
    /// cref="ProfilerOptions.SpanSources"/>), and of <see cref="Profiler.WatchSpan"/>. Zero: 2 seconds.</summary>
    public TimeSpan SpanLimit { get; set; }

    /// <summary>The limit of a pause of the garbage collector. Zero: 200 ms.</summary>
    public TimeSpan PauseLimit { get; set; }

    /// <summary>The longest time between two calls of <see cref="Profiler.Heartbeat"/>. Zero: half of systemd's
    /// WATCHDOG_USEC if it is set, else no limit.</summary>
    public TimeSpan HeartbeatLimit { get; set; }

    /// <summary>The limit of CPU time, in percent of one processor, over <see cref="LimitTime"/>. 0: none.</summary>
    public int CpuPercent { get; set; }

    /// <summary>The limit of memory in RAM, over <see cref="LimitTime"/>. 0: none.</summary>
    public long MemoryBytes { get; set; }

    /// <summary>How long CPU time or memory must be above its limit. Zero: 10 seconds.</summary>
    public TimeSpan LimitTime { get; set; }

    /// <summary>The limit of exceptions in a second. 0: none.</summary>
    public int ExceptionsPerSecond { get; set; }

    /// <summary>The least time between two incidents of one cause. Zero: 5 minutes.</summary>
    public TimeSpan Gap { get; set; }

    /// <summary>Incidents of one cause in a day. 0: 10.</summary>
    public int PerDay { get; set; }

    /// <summary>Bytes of all incidents in a day. 0: 1 MiB.</summary>
    public int BytesPerDay { get; set; }
}

/// <summary>
/// Options of <see cref="Profiler.Start"/>, all optional. A property that is null, zero or default is read from the
/// environment (EDGEPROF_*, then PYROSCOPE_* and OTEL_*; docs/configuration.md has the table), or has its default value.
/// </summary>
public class ProfilerOptions
{
    /// <summary>The service's name in profiles. Default: the program's file name.</summary>
    public string? Service { get; set; }

    /// <summary>Labels of every profile, for example a device. Keys match [a-zA-Z_][a-zA-Z0-9_]*; values contain no comma. Without a
    /// label <c>version</c> the informational version of the program is added.</summary>
    public IDictionary<string, string> Tags { get; set; } = new Dictionary<string, string>();

    /// <summary>Preset for sampling rate and collected kinds.</summary>
    public ProfileLevel Level { get; set; }

    /// <summary>Samples per second of CPU time, 1 to 1000; overrides <see cref="Level"/>. 0: the level's rate.</summary>
    public int RateHz { get; set; }

    /// <summary>The collected kinds; overrides <see cref="Level"/>. None: the level's kinds.</summary>
    public ProfileKinds Kinds { get; set; }

    /// <summary>Upper limit of the profiling cost, in millionths of the process' CPU time: 500 is 0.05 %. To keep it,
    /// the profiler samples less often, and each sample carries more weight. 0: no limit.</summary>
    public int BudgetPpm { get; set; }

    /// <summary>Each stack carries its thread's name as the label <c>thread</c>.</summary>
    public bool ThreadLabels { get; set; }

    /// <summary>Includes idle waits: of pool workers without work, timers, file watchers, Kestrel's heartbeat, the console logger, and
    /// of an entry point that waits for a task or a host.</summary>
    public bool IdleWaits { get; set; }

    /// <summary>No limits of allocations, exceptions, locks and waits per second. Exceptions are then counted one by
    /// one. For measurements: a busy program may have thousands of events a second.</summary>
    public bool AllEvents { get; set; }

    /// <summary>Stacks of allocations, exceptions, waits, locks and CPU samples under a continuation go on, after the frame
    /// <c>[awaited by]</c>, with the async methods that wait for it. x86-64 only. The same as EDGEPROF_AWAITED=1.</summary>
    public bool Awaited { get; set; }

    /// <summary>A history that explains slow requests, and what is worth an incident.</summary>
    public ProfilerIncidents Incidents { get; set; } = new();

    /// <summary>Names of the activity sources whose spans samples carry, as for <see cref="Profiler.TrackSpans"/>.
    /// Empty: the value of EDGEPROF_SPANS, else only the sources given to TrackSpans.</summary>
    public IList<string> SpanSources { get; set; } = new List<string>();

    /// <summary>One profile per interval, 100 ms to 1 hour. Zero: 10 seconds.</summary>
    public TimeSpan Interval { get; set; }

    /// <summary>The upload target: "http://host[:port][/prefix]", the same with https, or "file:///path". Null: no
    /// upload; profiles accumulate in memory, or are pulled.</summary>
    public string? Endpoint { get; set; }

    /// <summary>Trust and identity for an https endpoint.</summary>
    public ProfilerTls Tls { get; set; } = new();

    /// <summary>Address of the control endpoint, by which <c>edgeprof level</c> or curl change level and kinds while
    /// the program runs: a unix socket's path, accessible to the program's user only, or a port of 127.0.0.1, which
    /// needs a token. Null: the value of EDGEPROF_CONTROL, else none.</summary>
    public string? Control { get; set; }

    /// <summary>Token of requests to the control endpoint, at least 16 characters for a port. Null: the value of
    /// EDGEPROF_CONTROL_TOKEN.</summary>
    public string? ControlToken { get; set; }

    /// <summary>Address of the pull endpoint: "port" (of 127.0.0.1) or "address:port". <c>go tool pprof</c>, Parca or a
    /// browser fetch profiles at /debug/pprof/, and Prometheus fetches /metrics. Use it alone or together with <see
    /// cref="Endpoint"/>. Null: the value of EDGEPROF_PULL, else none.</summary>
    public string? Pull { get; set; }

    /// <summary>Token of requests to <see cref="Pull"/>, as "Authorization: Bearer TOKEN" or as a password; at least 16
    /// characters. Addresses other than loopback need one, and so does /control. Null: the value of
    /// EDGEPROF_PULL_TOKEN, else none.</summary>
    public string? PullToken { get; set; }

    /// <summary>Permits an address of <see cref="Pull"/> beyond loopback, where the token and the profiles cross the
    /// network unencrypted. Better: TLS in front, on this machine. The same as EDGEPROF_PULL_INSECURE=1.</summary>
    public bool PullInsecure { get; set; }

    /// <summary>Transport used instead of <see cref="Endpoint"/>: your own, or a <see cref="Stream"/>
    /// (<see cref="StreamTransport"/>).</summary>
    public ProfileTransport? Transport { get; set; }

    /// <summary>Directory for undelivered profiles, which keeps them through restarts and power cuts; used by this
    /// program only. Null: the value of EDGEPROF_SPOOL, else they are kept in memory only.</summary>
    public string? SpoolDirectory { get; set; }

    /// <summary>Upper limit of its size; the oldest profiles are deleted first. At most 1 GiB. 0: the value of
    /// EDGEPROF_SPOOL_BYTES, else 16 MiB.</summary>
    public long SpoolBytes { get; set; }

    /// <summary>Encoding of profiles.</summary>
    public ProfileFormat Format { get; set; }

    /// <summary>Headers of every HTTP request: credentials, a tenant. They never appear in log or error
    /// messages.</summary>
    public IDictionary<string, string> Headers { get; set; } = new Dictionary<string, string>();

    /// <summary>File with the bearer token of every HTTP request, read at the start and again after each answer 401 or
    /// 403, so a new token needs no restart. While it cannot be read, the profiler runs without a token and tries
    /// again. Not together with an Authorization line in <see cref="Headers"/> or EDGEPROF_TOKEN. At most 255 bytes.
    /// Null: the value of EDGEPROF_TOKEN_FILE, else none.</summary>
    public string? TokenFile { get; set; }

    /// <summary>Whether the device sends function names with each profile to Pyroscope; a server that symbolizes does
    /// not need them. Null: the value of EDGEPROF_NAMES, else true if PYROSCOPE_SERVER_ADDRESS is the upload
    /// target.</summary>
    public bool? Names { get; set; }

    /// <summary>Fixed size of the profiler's memory. 0: 128 KiB.</summary>
    public long MemoryBytes { get; set; }

    /// <summary>Maximum delay of the process' end for delivering or spooling the last profile. Default: 2
    /// seconds.</summary>
    public TimeSpan ExitTimeout { get; set; } = TimeSpan.FromSeconds(2);
}
