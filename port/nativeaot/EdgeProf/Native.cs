using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

[assembly: DisableRuntimeMarshalling]

namespace EdgeProf;

/// <summary>Options as the C side takes them (struct ep_dotnet_options in glue.h).</summary>
[StructLayout(LayoutKind.Sequential)]
internal unsafe struct NativeOptions
{
    public byte* Service;
    public byte* Tags;
    public byte* Endpoint;
    public ulong MemoryBytes;
    public uint Level, RateHz, IntervalMs, Format;
}

/// <summary>Indices of the figures that ep_dotnet_stats fills in (enum ep_dotnet_figure in glue.h).</summary>
internal enum Figure
{
    Samples,
    WeightNs,
    Exact,
    Gap,
    Cut,
    ThreadExitNs,
    RuleHits,
    RuleMisses,
    Messages,
    MessageBytes,
    Delivered,
    DeliveredBytes,
    DeliveryFailures,
    IntervalsMerged,
    LastError,
    OwnCpuNs,
    Wakeups,
    Threads,
    Modules,
    MemoryUsed,
    Count,
}

/// <summary>The C library, linked into a NativeAOT program; calls are direct and blittable.</summary>
internal static unsafe class Native
{
    public const int LossReasons = 14; // enum ep_loss

    public const int EInval = 22, EBusy = 16, EAlready = 114, ETimedOut = 110, ESrch = 3, ENoMem = 12;

    private const string Library = "edgeprof";

    [DllImport(Library, EntryPoint = "ep_dotnet_configured")]
    public static extern int Configured();

    [DllImport(Library, EntryPoint = "ep_dotnet_start")]
    public static extern int Start(NativeOptions* options);

    [DllImport(Library, EntryPoint = "ep_dotnet_stop")]
    public static extern int Stop(uint deadlineMs);

    [DllImport(Library, EntryPoint = "ep_dotnet_flush")]
    public static extern int Flush();

    [DllImport(Library, EntryPoint = "ep_dotnet_stats")]
    public static extern int Stats(ulong* figure, uint figures, ulong* lostCount, ulong* lostNs, uint reasons);

    [DllImport(Library, EntryPoint = "ep_dotnet_error")]
    private static extern byte* ErrorText();

    [DllImport(Library, EntryPoint = "ep_dotnet_loss_name")]
    private static extern byte* LossNameText(uint reason);

    public static string Error() => Marshal.PtrToStringUTF8((nint)ErrorText()) ?? "";

    public static string LossName(int reason) => Marshal.PtrToStringUTF8((nint)LossNameText((uint)reason)) ?? "";

    /// <summary>Whether the library is linked into this program.</summary>
    public static bool IsLinked { get; } = Probe();

    private static bool Probe()
    {
        try
        {
            ErrorText();
            return true;
        }
        catch (Exception e) when (e is DllNotFoundException or EntryPointNotFoundException or BadImageFormatException)
        {
            return false;
        }
    }
}
