namespace EdgeProf;

/// <summary>How closely to look.</summary>
public enum ProfileLevel
{
    /// <summary>What EDGEPROF_LEVEL says, otherwise <see cref="Low"/>.</summary>
    Default = 0,

    /// <summary>19 samples per second of CPU time of each thread.</summary>
    Low = 1,

    /// <summary>97 samples per second of CPU time of each thread.</summary>
    Medium = 2,

    /// <summary>251 samples per second of CPU time of each thread. No kernel samples faster than its tick (often 250
    /// or 100 Hz); samples then stand for more time each.</summary>
    High = 3,
}

/// <summary>How profiles are encoded.</summary>
public enum ProfileFormat
{
    /// <summary>edgeprof's own: small, with a dictionary that is sent once.</summary>
    Compact = 0,

    /// <summary>pprof (perftools.profiles.Profile), uncompressed, with addresses and build ids.</summary>
    Pprof = 1,
}

/// <summary>
/// What <see cref="Profiler.Start"/> needs to know. Everything may be left out: what is null, zero or default is taken
/// from the environment (EDGEPROF_SERVICE, EDGEPROF_TAGS, EDGEPROF_LEVEL, EDGEPROF_RATE, EDGEPROF_INTERVAL,
/// EDGEPROF_ENDPOINT, EDGEPROF_FORMAT; then PYROSCOPE_SERVER_ADDRESS and PYROSCOPE_APPLICATION_NAME), else a default.
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

    /// <summary>One profile per interval, 100 ms to 1 hour. Zero: 10 seconds.</summary>
    public TimeSpan Interval { get; set; }

    /// <summary>Where profiles go: "http://host[:port][/prefix]" or "file:///path". Null: nowhere, they merge in
    /// memory.</summary>
    public string? Endpoint { get; set; }

    /// <summary>How profiles are encoded.</summary>
    public ProfileFormat Format { get; set; }

    /// <summary>Memory of the profiler, all there will ever be. 0: 128 KiB, which lie in the program's bss.</summary>
    public long MemoryBytes { get; set; }

    /// <summary>How long the end of the process may wait for the last profile to be delivered. Default: 2 seconds.</summary>
    public TimeSpan ExitTimeout { get; set; } = TimeSpan.FromSeconds(2);
}
