namespace EdgeProf;

/// <summary>Parts of the package that a program can leave out (build/EdgeProf.targets). The compiler reads
/// ILLink.Substitutions.xml: what is off becomes a constant, and the code behind it is not in the program.</summary>
internal static class Features
{
    /// <summary>EdgeProfSpans: labels of spans and requests (<see cref="Profiler.TrackSpans"/>).</summary>
    public static bool Spans => true;

    /// <summary>EdgeProfRoutes: labels of requests by route, in programs with ASP.NET Core.</summary>
    public static bool Routes => true;

    /// <summary>EdgeProfAwaited: async parents and lists of pending tasks.</summary>
    public static bool Awaited => true;

    /// <summary>EdgeProfMetrics: Meter("EdgeProf").</summary>
    public static bool Metrics => true;

    /// <summary>EdgeProfSignals: the program may handle signals by itself.</summary>
    public static bool Signals => true;

    /// <summary>EdgeProfPprof: pprof, and names of functions in it.</summary>
    public static bool Pprof => true;

    /// <summary>EdgeProfTls: https.</summary>
    public static bool Tls => true;

    /// <summary>EdgeProfIncidents: incidents.</summary>
    public static bool Incidents => true;

    /// <summary>The program's version has to be read from its assembly, because it is not the SDK's.</summary>
    public static bool VersionByAttribute => true;
}
