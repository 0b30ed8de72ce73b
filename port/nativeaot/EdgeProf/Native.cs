using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

[assembly: DisableRuntimeMarshalling]

namespace EdgeProf;

/// <summary>struct ep_dotnet_incidents in glue.h.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct NativeIncidents
{
    public ulong HistoryBytes, MemoryBytes;
    public uint Enable, TailMs, SpanMs, GcMs, HeartbeatMs, CpuPct, ForMs, Exceptions, GapMs, PerDay, DayBytes, Unused;
}

/// <summary>Options for the C side (struct ep_dotnet_options in glue.h).</summary>
[StructLayout(LayoutKind.Sequential)]
internal unsafe struct NativeOptions
{
    public byte* Service;
    public byte* Tags;
    public byte* Version;
    public byte* Endpoint;
    public byte* Control;
    public byte* ControlToken;
    public byte* Headers;
    public byte* Pull;
    public byte* PullToken;
    public byte* Spool;
    public byte* TokenFile;
    public ulong MemoryBytes, SpoolBytes;
    public uint Level, RateHz, IntervalMs, Format, Kinds, BudgetPpm, Flags, Names, Managed, PullInsecure;
    public NativeIncidents Incidents;
}

/// <summary>Options for https (struct ep_dotnet_tls in glue.h).</summary>
[StructLayout(LayoutKind.Sequential)]
internal unsafe struct NativeTls
{
    public byte* CaFile, Pin, CertFile, KeyFile, ServerName;
    public void* Ca, Cert, Key;
    public ulong CaSize, CertSize, KeySize;
    public uint Flags;
}

/// <summary>A message's head (struct ep_dotnet_message in glue.h).</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct NativeMessage
{
    public ulong Size, Segment, StartUnixNs, EndUnixNs;
    public uint Sequence, Format;
}

/// <summary>struct ep_dotnet_task_list in glue.h.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct NativeTaskList
{
    public ulong WalkedNs;
    public uint Methods, Groups, LeftOut;
}

/// <summary>struct ep_dotnet_task_group in glue.h.</summary>
[StructLayout(LayoutKind.Sequential)]
internal unsafe struct NativeTaskGroup
{
    public const int Most = 32; // EP_DOTNET_TASK_DEPTH
    public uint Count, Depth;
    public fixed ulong Type[Most]; // addresses, on machines of 64 bits
}

/// <summary>What this assembly and the archive must have in common (struct ep_dotnet_shape in glue.h): the number of the
/// interface, sizes of the structures above, number of figures.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct NativeShape
{
    public uint Interface, Options, Tls, Message, Figures;
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
    HandlerNs,
    CostPpm,
    StretchPct,
    Stretches,
    SpoolError,
    Spooled,
    Replayed,
    SpoolMessages,
    SpoolBytes,
    SpoolWritten,
    LastStatus,
    BusyStops,
    Incidents,
    IncidentsSuppressed,
    IncidentsLost,
    Count,
}

/// <summary>The C library, linked into a NativeAOT program; calls are direct and blittable.</summary>
internal static unsafe class Native
{
    public const int FlagThreadLabels = 2, FlagIdleWaits = 4, FlagAllEvents = 16; // enum ep_flags
    public const uint NamesAsk = 0, NamesOn = 1, NamesOff = 2; // ep_dotnet_options.names

    public const uint TlsNoClock = 1; // enum ep_tls_flags

    private const uint Interface = 1; // EP_DOTNET_INTERFACE

    public const int EInval = 22, EBusy = 16, EAlready = 114, ETimedOut = 110, ESrch = 3, ENoMem = 12,
                     EStale = 116, EBadMsg = 74, EMsgSize = 90, EAgain = 11, EIo = 5;

    public const int SigInt = 2, SigTerm = 15;

    private const string Library = "edgeprof", Runtime = "libSystem.Native";

    [DllImport(Library, EntryPoint = "ep_dotnet_agree")]
    private static extern int Agree(NativeShape* shape, uint size);

    [DllImport(Library, EntryPoint = "ep_dotnet_configured")]
    public static extern int Configured();

    [DllImport(Library, EntryPoint = "ep_dotnet_start")]
    public static extern int Start(NativeOptions* options, NativeTls* tls);

    [DllImport(Library, EntryPoint = "ep_dotnet_stop")]
    public static extern int Stop(uint deadlineMs);

    [DllImport(Library, EntryPoint = "ep_dotnet_signal_end_attach")]
    public static extern int SignalEndAttach(delegate* unmanaged<void> end);

    /// <summary>The next three are .NET's own, of its signals; the first returns 0 if it fails.</summary>
    [DllImport(Runtime, EntryPoint = "SystemNative_InitializeTerminalAndSignalHandling")]
    public static extern int InitializeSignalHandling();

    [DllImport(Runtime, EntryPoint = "SystemNative_SetPosixSignalHandler")]
    public static extern void SetSignalHandler(delegate* unmanaged<int, int, int> handler);

    [DllImport(Runtime, EntryPoint = "SystemNative_EnablePosixSignalHandling")]
    public static extern int EnableSignalHandling(int number);

    [DllImport(Library, EntryPoint = "ep_dotnet_flush")]
    public static extern int Flush();

    [DllImport(Library, EntryPoint = "ep_dotnet_stats")]
    public static extern int Stats(ulong* figure, uint figures, ulong* byKind, uint kinds, ulong* lost, uint reasons);

    /// <summary>Whether the running profiler sends names.</summary>
    [DllImport(Library, EntryPoint = "ep_dotnet_sends_names")]
    public static extern int SendsNames();

    [DllImport(Library, EntryPoint = "ep_names_next")]
    public static extern int NamesNext(byte* name, nuint size, nuint* address, int* type);

    [DllImport(Library, EntryPoint = "ep_names_end")]
    public static extern void NamesEnd();

    [DllImport(Library, EntryPoint = "ep_dotnet_live_attach")]
    public static extern int LiveAttach(nint* handles, uint count);

    [DllImport(Library, EntryPoint = "ep_dotnet_names_attach")]
    public static extern void NamesAttach(delegate* unmanaged<nint, byte*, int, int> reader, nint type);

    [DllImport(Library, EntryPoint = "ep_dotnet_exceptions_attach")]
    public static extern void ExceptionsAttach(uint traceAt, uint countAt);

    [DllImport(Library, EntryPoint = "ep_dotnet_probe_attach")]
    public static extern void ProbeAttach(delegate* unmanaged<void> probe);

    [DllImport(Library, EntryPoint = "ep_dotnet_missing")]
    private static extern byte* MissingText(uint kind);

    /// <summary>The three below look at objects, which must not move meanwhile: no transition.</summary>
    [SuppressGCTransition]
    [DllImport(Library, EntryPoint = "ep_dotnet_async_measure")]
    public static extern int AsyncMeasure(void* objects, uint count);

    [SuppressGCTransition]
    [DllImport(Library, EntryPoint = "ep_dotnet_async_check")]
    public static extern int AsyncCheck(void* objects, uint turn);

    [SuppressGCTransition]
    [DllImport(Library, EntryPoint = "ep_dotnet_async_task")]
    public static extern void AsyncTask(void* objects, uint turn);

    [SuppressGCTransition]
    [DllImport(Library, EntryPoint = "ep_dotnet_async_suspended")]
    public static extern void AsyncSuspended(void* objects);

    [SuppressGCTransition]
    [DllImport(Library, EntryPoint = "ep_dotnet_async_resumed")]
    public static extern int AsyncResumed(void* objects, uint turn);

    /// <summary>With a transition: it looks at the thread in both modes.</summary>
    [DllImport(Library, EntryPoint = "ep_dotnet_mode_measure")]
    public static extern int ModeMeasure();

    [DllImport(Library, EntryPoint = "ep_dotnet_async_enable")]
    public static extern void AsyncEnable(int enable);

    [DllImport(Library, EntryPoint = "ep_dotnet_has_endpoint")]
    public static extern int HasEndpoint();

    /// <summary>Blocks until somebody asks.</summary>
    [DllImport(Library, EntryPoint = "ep_dotnet_tasks_next")]
    public static extern int TasksNext();

    [DllImport(Library, EntryPoint = "ep_dotnet_tasks_end")]
    public static extern void TasksEnd(int end);

    [SuppressGCTransition]
    [DllImport(Library, EntryPoint = "ep_dotnet_tasks_measure")]
    public static extern int TasksMeasure(void* objects, uint count);

    [DllImport(Library, EntryPoint = "ep_dotnet_tasks_begin")]
    public static extern int TasksBegin();

    // No collection can walk the heap meanwhile.
    [SuppressGCTransition]
    [DllImport(Library, EntryPoint = "ep_dotnet_tasks_list")]
    public static extern int TasksList(NativeTaskList* about);

    [DllImport(Library, EntryPoint = "ep_dotnet_tasks_group")]
    public static extern NativeTaskGroup* TasksGroup(uint number);

    [DllImport(Library, EntryPoint = "ep_dotnet_tasks_answer")]
    public static extern void TasksAnswer(byte* text, uint size);

    [DllImport(Library, EntryPoint = "ep_dotnet_async_configured")]
    public static extern int AsyncConfigured();

    [DllImport(Library, EntryPoint = "ep_dotnet_async_reason")]
    private static extern byte* AsyncReasonText();

    /// <summary>Why this program's stacks have no async parents; empty: they have, or nobody asked.</summary>
    public static string AsyncReason() => Features.Awaited ? Marshal.PtrToStringUTF8((nint)AsyncReasonText()) ?? "" : "";

    /// <summary>Size of a line about delivery, and its terminating 0 (EP_DOTNET_NOTICE in glue.h).</summary>
    public const int NoticeBytes = 512;

    [DllImport(Library, EntryPoint = "ep_dotnet_notices_keep")]
    public static extern void NoticesKeep(int keep);

    [DllImport(Library, EntryPoint = "ep_dotnet_notice_take")]
    public static extern int NoticeTake(byte* line, uint room);

    [DllImport(Library, EntryPoint = "ep_dotnet_message_run")]
    public static extern uint MessageRun();

    /// <summary>Blocks until there is a message.</summary>
    [DllImport(Library, EntryPoint = "ep_dotnet_message_take")]
    public static extern long MessageTake(uint run, NativeMessage* about, byte* buffer, ulong capacity);

    [DllImport(Library, EntryPoint = "ep_dotnet_message_done")]
    public static extern void MessageDone(uint run, int result, ulong retryNs);

    /// <summary>Number of the library's kinds (number 0 is unused); below, of its loss reasons.</summary>
    [DllImport(Library, EntryPoint = "ep_dotnet_kinds")]
    public static extern uint Kinds();

    [DllImport(Library, EntryPoint = "ep_dotnet_loss_reasons")]
    public static extern uint LossReasons();

    [DllImport(Library, EntryPoint = "ep_threads_dump")]
    public static extern int ThreadsDump();

    [DllImport(Library, EntryPoint = "ep_dotnet_incidents_on")]
    public static extern int IncidentsOn();

    [DllImport(Library, EntryPoint = "ep_incident")]
    public static extern int Incident(byte* name);

    [DllImport(Library, EntryPoint = "ep_incident_span_begin")]
    public static extern uint SpanBegin(byte* name, uint limitMs);

    [DllImport(Library, EntryPoint = "ep_incident_span_name")]
    public static extern void SpanName(uint span, byte* name);

    [DllImport(Library, EntryPoint = "ep_incident_span_end")]
    public static extern void SpanEnd(uint span);

    [DllImport(Library, EntryPoint = "ep_heartbeat")]
    public static extern void Heartbeat();

    [DllImport(Library, EntryPoint = "ep_level_get")]
    public static extern uint LevelGet();

    [DllImport(Library, EntryPoint = "ep_level_set")]
    public static extern int LevelSet(uint level);

    [DllImport(Library, EntryPoint = "ep_kinds_get")]
    public static extern uint KindsGet();

    [DllImport(Library, EntryPoint = "ep_kinds_set")]
    public static extern int KindsSet(uint kinds);

    [DllImport(Library, EntryPoint = "ep_kinds_change")]
    public static extern int KindsChange(uint on, uint off);

    [DllImport(Library, EntryPoint = "ep_tags_add")]
    public static extern uint TagsAdd(uint set, byte* key, uint keySize, byte* value, uint valueSize);

    /// <summary>Only stores to the calling thread's memory, so it needs no transition for the garbage
    /// collector.</summary>
    [SuppressGCTransition]
    [DllImport(Library, EntryPoint = "ep_work_set")]
    public static extern void WorkSet(uint tags, ulong spanId, ulong traceHigh, ulong traceLow);

    [DllImport(Library, EntryPoint = "ep_dotnet_error")]
    private static extern byte* ErrorText();

    [DllImport(Library, EntryPoint = "ep_dotnet_loss_name")]
    private static extern byte* LossNameText(uint reason);

    [DllImport(Library, EntryPoint = "ep_kind_name")]
    private static extern byte* KindNameText(uint kind);

    [DllImport(Library, EntryPoint = "ep_kind_unit")]
    private static extern byte* KindUnitText(uint kind);

    public static string Error() => Marshal.PtrToStringUTF8((nint)ErrorText()) ?? "";

    [DllImport(Library, EntryPoint = "ep_tls_error")]
    private static extern byte* TlsErrorText();

    /// <summary>Why the last connection of an https endpoint failed; empty if it did not.</summary>
    public static string TlsError() => Features.Tls ? Marshal.PtrToStringUTF8((nint)TlsErrorText()) ?? "" : "";

    public static string LossName(int reason) => Marshal.PtrToStringUTF8((nint)LossNameText((uint)reason)) ?? "";

    /// <summary>Why the hooks cannot measure a kind; empty if they can.</summary>
    public static string Missing(int kind) => Marshal.PtrToStringUTF8((nint)MissingText((uint)kind)) ?? "";

    public static string KindName(int kind) => Marshal.PtrToStringUTF8((nint)KindNameText((uint)kind)) ?? "";

    public static string KindUnit(int kind) => Marshal.PtrToStringUTF8((nint)KindUnitText((uint)kind)) ?? "";

    /// <summary>Null: the library is linked into this program and belongs to this assembly, so its functions may be
    /// called. Else the reason why not.</summary>
    private static readonly string? trouble = Probe();

    public static bool IsLinked => trouble is null;

    public static string Trouble => trouble ?? "";

    private static string? Probe()
    {
        try
        {
            var shape = new NativeShape
            {
                Interface = Interface,
                Options = (uint)sizeof(NativeOptions),
                Tls = (uint)sizeof(NativeTls),
                Message = (uint)sizeof(NativeMessage),
                Figures = (uint)Figure.Count,
            };
            return Agree(&shape, (uint)sizeof(NativeShape)) == 0 ? null
                : "the linked libedgeprof.a is of another version than EdgeProf.dll: use both of one package (EdgeProfNativeLibrary names another archive)";
        }
        catch (Exception e) when (e is DllNotFoundException or EntryPointNotFoundException or BadImageFormatException)
        {
            return "this program is not published with NativeAOT (PublishAot) for a platform that EdgeProf has a library for";
        }
    }
}
