namespace EdgeProf;

/// <summary>How closely to look.</summary>
public enum ProfileLevel
{
    /// <summary>What EDGEPROF_LEVEL says, otherwise <see cref="Low"/>.</summary>
    Default = 0,

    /// <summary>19 samples per second of CPU time of each thread; nothing else is measured.</summary>
    Low = 1,

    /// <summary>97 samples per second of CPU time of each thread; also allocations, live heap, heap sizes and locks.</summary>
    Medium = 2,

    /// <summary>251 samples per second of CPU time of each thread, and every kind. No kernel samples faster than its tick (often 250
    /// or 100 Hz); samples then stand for more time each.</summary>
    High = 3,
}

/// <summary>What is measured.</summary>
[Flags]
public enum ProfileKinds : uint
{
    /// <summary>In <see cref="ProfilerOptions"/>: as the level says.</summary>
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

    /// <summary>Every thread's stack; only when asked for.</summary>
    Threads = 1 << 8,

    /// <summary>What the garbage collector has committed, by generation, as its last collection left it.</summary>
    HeapSizes = 1 << 9,

    /// <summary>All of them.</summary>
    All = Cpu | Wait | Lock | Allocation | LiveHeap | Exception | GarbageCollection | Threads | HeapSizes,
}

/// <summary>How profiles are encoded.</summary>
public enum ProfileFormat
{
    /// <summary>edgeprof's own: small, with a dictionary that is sent once.</summary>
    Compact = 0,

    /// <summary>pprof (perftools.profiles.Profile), uncompressed, with addresses and build ids; over HTTP by Grafana
    /// Pyroscope's push API.</summary>
    Pprof = 1,
}

/// <summary>
/// Whom an https endpoint is trusted by, and who this device is. What is null is taken from the environment
/// (EDGEPROF_TLS_*); with nothing set the system's authorities count.
/// </summary>
public sealed class ProfilerTls
{
    /// <summary>File with the authorities that may sign the server's certificate: PEM with any number, or DER with one.</summary>
    public string? AuthorityFile { get; set; }

    /// <summary>The same from memory.</summary>
    public byte[]? Authority { get; set; }

    /// <summary>"sha256//BASE64" of the server's public key, several with ';' between. With an authority both must be right;
    /// alone the key is the server's identity.</summary>
    public string? Pin { get; set; }

    /// <summary>File with this device's certificate, with its chain: PEM or DER.</summary>
    public string? CertificateFile { get; set; }

    /// <summary>File with its key: PEM or DER, not encrypted.</summary>
    public string? KeyFile { get; set; }

    /// <summary>The certificate from memory.</summary>
    public byte[]? Certificate { get; set; }

    /// <summary>The key from memory; only read during the start.</summary>
    public byte[]? Key { get; set; }

    /// <summary>Name that the server's certificate must have. Default: the endpoint's host.</summary>
    public string? ServerName { get; set; }

    /// <summary>As long as the device does not know the date, certificates count whatever their dates say. Needs a pin or an
    /// authority of one's own; without this such a device does not connect until its clock is set.</summary>
    public bool AllowUnknownDate { get; set; }
}

/// <summary>
/// What <see cref="Profiler.Start"/> needs to know. Everything may be left out: what is null, zero or default is taken
/// from the environment (EDGEPROF_*, then PYROSCOPE_* and OTEL_*; docs/configuration.md has the table), else a default.
/// </summary>
public sealed class ProfilerOptions
{
    /// <summary>Name under which profiles are found. Default: the program's file name.</summary>
    public string? Service { get; set; }

    /// <summary>Labels of every profile, for example a version or a device. Keys match [a-zA-Z_][a-zA-Z0-9_]*; values
    /// contain no comma.</summary>
    public IDictionary<string, string> Tags { get; set; } = new Dictionary<string, string>();

    /// <summary>How closely to look.</summary>
    public ProfileLevel Level { get; set; }

    /// <summary>Samples per second of CPU time, 1 to 1000; overrides <see cref="Level"/>. 0: as the level says.</summary>
    public int RateHz { get; set; }

    /// <summary>What is measured; overrides <see cref="Level"/>. None: as the level says.</summary>
    public ProfileKinds Kinds { get; set; }

    /// <summary>The most that profiling may cost, in millionths of the CPU time that the process uses: 500 is 0.05 %.
    /// Sampling gets coarser before more is spent; samples carry more weight then. 0: no limit.</summary>
    public int BudgetPpm { get; set; }

    /// <summary>Each stack carries its thread's name as the label <c>thread</c>.</summary>
    public bool ThreadLabels { get; set; }

    /// <summary>Waits of pools that have nothing to do count as well.</summary>
    public bool IdleWaits { get; set; }

    /// <summary>Names of the activity sources whose spans samples are to carry, as <see cref="Profiler.TrackSpans"/> takes
    /// them. Empty: as EDGEPROF_SPANS says, else none but those that were asked for there.</summary>
    public IList<string> SpanSources { get; set; } = new List<string>();

    /// <summary>One profile per interval, 100 ms to 1 hour. Zero: 10 seconds.</summary>
    public TimeSpan Interval { get; set; }

    /// <summary>Where profiles go: "http://host[:port][/prefix]", the same with https, or "file:///path". Null: nowhere, they
    /// merge in memory, or are pulled.</summary>
    public string? Endpoint { get; set; }

    /// <summary>For an https endpoint: whom to trust.</summary>
    public ProfilerTls Tls { get; set; } = new();

    /// <summary>Opens the control endpoint, by which <c>edgeprof level</c> or curl change level and kinds while the program runs:
    /// a unix socket's path, for the program's user alone, or a port of 127.0.0.1, which needs a token. Null: as
    /// EDGEPROF_CONTROL says, else none.</summary>
    public string? Control { get; set; }

    /// <summary>What requests to the control endpoint must carry, at least 16 characters for a port. Null: as
    /// EDGEPROF_CONTROL_TOKEN says.</summary>
    public string? ControlToken { get; set; }

    /// <summary>Where profiles can be fetched over HTTP, by <c>go tool pprof</c>, Parca or a browser at /debug/pprof/, and
    /// /metrics by Prometheus: "port" (of 127.0.0.1), "address:port". With or without <see cref="Endpoint"/>. Null: as
    /// EDGEPROF_PULL says, else nowhere.</summary>
    public string? Pull { get; set; }

    /// <summary>The token that requests to <see cref="Pull"/> must carry, as "Authorization: Bearer TOKEN" or as a password;
    /// 16 characters or more. Addresses other than loopback need one, and so does /control. Null: as EDGEPROF_PULL_TOKEN
    /// says, else none.</summary>
    public string? PullToken { get; set; }

    /// <summary>Takes the profiles in place of <see cref="Endpoint"/>: your own way, or a <see cref="Stream"/>
    /// (<see cref="StreamTransport"/>).</summary>
    public ProfileTransport? Transport { get; set; }

    /// <summary>A directory, this program's alone, in which profiles wait that cannot be delivered, through restarts and
    /// power cuts. Null: as EDGEPROF_SPOOL says, else they wait in memory alone.</summary>
    public string? SpoolDirectory { get; set; }

    /// <summary>The most that may be in it; the oldest goes first. At most 1 GiB. 0: as EDGEPROF_SPOOL_BYTES says, else 16
    /// MiB.</summary>
    public long SpoolBytes { get; set; }

    /// <summary>How profiles are encoded.</summary>
    public ProfileFormat Format { get; set; }

    /// <summary>Headers of every request over HTTP: credentials, a tenant. They are sent and nowhere told.</summary>
    public IDictionary<string, string> Headers { get; set; } = new Dictionary<string, string>();

    /// <summary>Whether profiles that go to Pyroscope have names, which a server that looks up symbols then does not. Null: as
    /// EDGEPROF_NAMES says, else when PYROSCOPE_SERVER_ADDRESS says where profiles go.</summary>
    public bool? Names { get; set; }

    /// <summary>Memory of the profiler, all there will ever be. 0: 128 KiB, which lie in the program's bss.</summary>
    public long MemoryBytes { get; set; }

    /// <summary>How long the end of the process may wait for the last profile to be delivered, or put into the spool.
    /// Default: 2 seconds.</summary>
    public TimeSpan ExitTimeout { get; set; } = TimeSpan.FromSeconds(2);
}
