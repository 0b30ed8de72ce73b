using System.Runtime.InteropServices;

namespace EdgeProf;

/// <summary>
/// Delivers the last profile before the process ends, without changing how it ends. A regular end raises ProcessExit.
/// SIGTERM and SIGINT end a program that does not handle them without that event, so the profiler registers for them
/// too. Handlers run newest first, and this one is registered before Main. So it knows whether the program (a host with
/// graceful shutdown) has cancelled the signal. If so, the program continues, and the profiler only flushes. Otherwise
/// the profiler stops, and the runtime then ends the program as usual.
/// </summary>
internal static class ProcessEnd
{
    private static readonly List<PosixSignalRegistration> Registrations = [];

    public static void Watch()
    {
        if (Registrations.Count != 0)
            return;
        AppDomain.CurrentDomain.ProcessExit += (_, _) => Profiler.StopAtEnd();
        Registrations.Add(PosixSignalRegistration.Create(PosixSignal.SIGTERM, OnSignal));
        Registrations.Add(PosixSignalRegistration.Create(PosixSignal.SIGINT, OnSignal));
    }

    private static void OnSignal(PosixSignalContext context)
    {
        if (context.Cancel)
            Profiler.Flush();
        else
            Profiler.StopAtEnd();
    }
}
