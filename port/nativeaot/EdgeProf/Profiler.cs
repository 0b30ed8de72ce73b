using System.Diagnostics;
using System.Globalization;
using System.Reflection;
using System.Text;

namespace EdgeProf;

/// <summary>
/// Always-on profiler of a NativeAOT program. One profiler runs in a process at a time. All members may be called from
/// any thread. In a program not published with NativeAOT it does nothing except write one line on standard error.
/// </summary>
public static unsafe partial class Profiler
{
    /// <summary>A program that starts its own profiler does so early, so little was measured before.</summary>
    private static readonly TimeSpan Handover = TimeSpan.FromMilliseconds(100);

    private static readonly object Gate = new();
    private static bool automatic, unsupportedSaid, unsettled; // unsettled: stopped, but a thread may still use its memory
    private static volatile bool running, keepNotices;
    private static TimeSpan exitTimeout;
    private static byte[] authority = [];

    /// <summary>Whether this program can be profiled: it is published with NativeAOT for a platform that the package
    /// supports, with the package's own library.</summary>
    public static bool IsSupported => Native.IsLinked;

    /// <summary>Why this program cannot be profiled, in one line. Empty: it can.</summary>
    public static string UnsupportedReason => Native.Trouble;

    /// <summary>Whether the profiler runs.</summary>
    public static bool IsRunning => running;

    /// <summary>Whether a variable of the environment says where profiles go, so that <see
    /// cref="StartFromEnvironment"/> starts the profiler.</summary>
    public static bool IsConfiguredByEnvironment =>
        !string.IsNullOrEmpty(Environment.GetEnvironmentVariable("EDGEPROF_ENDPOINT"))
        || !string.IsNullOrEmpty(Environment.GetEnvironmentVariable("PYROSCOPE_SERVER_ADDRESS"))
        || !string.IsNullOrEmpty(Environment.GetEnvironmentVariable("EDGEPROF_PULL"));

    /// <summary>Starts the profiler. If the environment has started one before, it is stopped first. It has a tenth of a
    /// second to deliver its profile.</summary>
    /// <returns>True if it runs, false if this program cannot be profiled.</returns>
    /// <exception cref="ArgumentException">An option, or an environment variable in its place, is invalid.</exception>
    /// <exception cref="InvalidOperationException">The profiler runs already, or a system call failed.</exception>
    public static bool Start(ProfilerOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        lock (Gate)
        {
            if (!Supported())
                return false;
            if (running && automatic)
                StopLocked(exitTimeout < Handover ? exitTimeout : Handover);
            if (running)
                throw new InvalidOperationException("the profiler is already running");
            Fail(StartLocked(options));
            automatic = false;
            return true;
        }
    }

    /// <summary>Starts the profiler if EDGEPROF_ENDPOINT, PYROSCOPE_SERVER_ADDRESS or EDGEPROF_PULL is set. Programs
    /// that reference the package call this before Main, unless their project file contains
    /// <c>&lt;EdgeProfAutoStart&gt;false&lt;/EdgeProfAutoStart&gt;</c>. Never throws: an invalid variable causes one
    /// line on standard error.</summary>
    /// <returns>True if this call has started it.</returns>
    public static bool StartFromEnvironment()
    {
        lock (Gate)
        {
            if (running || !IsConfiguredByEnvironment || !Supported())
                return false;
            try
            {
                var error = Native.Configured() is < 0 and var wrong ? wrong : StartLocked(new ProfilerOptions());
                if (error != 0)
                    Say($"not started: {Describe(error)}");
                automatic = error == 0;
            }
            catch (Exception e) // it would end the program before Main
            {
                automatic = false;
                Say($"not started: {e.Message}");
                Abandon();
            }
            return automatic;
        }
    }

    /// <summary>Stops what a start that failed half-way has started.</summary>
    private static void Abandon()
    {
        try
        {
            if (running)
                StopLocked(TimeSpan.Zero);
            else
                Native.Stop(0);
        }
        catch (Exception)
        {
            // The line above says why.
        }
    }

    /// <summary>Stops sampling and waits at most <paramref name="timeout"/> until everything is delivered. With a
    /// spool, profiles that cannot be delivered are stored there before. The profiler can be started again
    /// afterwards.
    /// <para>The timeout also holds if a thread is within the profiler and does not return, in a long pause or stopped by a
    /// debugger. After half the time, at most a second, the rest is delivered without what that thread records. If it stays,
    /// the profiler leaves its memory in place, says so in one line and counts it in <see cref="ProfilerStats.BusyStops"/>;
    /// sampling has ended. A later Stop or Start completes the stop; Start throws as long as that thread stays. Only a
    /// collection that stops the calling thread too may make this call longer.</para></summary>
    /// <param name="timeout">At most an hour, which is also meant by <see cref="Timeout.InfiniteTimeSpan"/>.</param>
    /// <returns>True if everything was delivered or is in the spool; false if something was dropped (see <see
    /// cref="ProfilerStats.Losses"/>), a thread still uses the profiler's memory, or the profiler did not run.</returns>
    public static bool Stop(TimeSpan timeout)
    {
        lock (Gate)
            return running ? StopLocked(timeout) : unsettled && Settle(Milliseconds(timeout));
    }

    /// <summary>Ends the interval now, so that its profile is delivered; does not wait for that.</summary>
    public static void Flush()
    {
        if (Native.IsLinked)
            Native.Flush(); // -ESRCH: not running, nothing to flush
    }

    /// <summary>Requests the stacks of all threads: one profile of kind <see cref="ProfileKinds.Threads"/>, in pprof
    /// <c>goroutine</c>, delivered within an interval. No thread is interrupted. A waiting thread has a full stack if
    /// <see cref="ProfileKinds.Wait"/> or <see cref="ProfileKinds.Lock"/> was on when its wait began. Otherwise the
    /// stack may end in <c>[stack cut]</c> after the native calls.</summary>
    /// <returns>False if no profiler runs.</returns>
    public static bool DumpThreads() => Native.IsLinked && Native.ThreadsDump() == 0;

    /// <summary>Statistics of the profiler, as they are now; each call makes a new object. All figures are zero if it
    /// never ran.</summary>
    public static ProfilerStats GetStats()
    {
        if (!Native.IsLinked)
            return default;
        var figures = new ulong[(int)Figure.Count];
        var kinds = new ulong[2 * Native.Kinds()];
        var lost = new ulong[2 * Native.LossReasons()];
        return Fetch(figures, kinds, lost) == 0 ? new ProfilerStats(figures, Measured(kinds), Lost(lost), Missing(kinds.Length / 2), Native.TlsError()) : default;
    }

    /// <summary>Whether lines about delivery, such as "profiles do not reach http://gateway:4040: connection refused",
    /// are kept for <see cref="TakeNotice"/> from now on. Otherwise, and if nobody takes them, they are written on
    /// standard error. Each cause has a line once an hour at most; no line has a credential.</summary>
    public static bool KeepNotices
    {
        get => keepNotices;
        set
        {
            keepNotices = value;
            if (Native.IsLinked)
                Native.NoticesKeep(value ? 1 : 0);
        }
    }

    /// <summary>Takes the oldest line that was kept because of <see cref="KeepNotices"/>.</summary>
    /// <returns>The line, or null if there is none.</returns>
    public static string? TakeNotice()
    {
        if (!Native.IsLinked)
            return null;
        var line = stackalloc byte[Native.NoticeBytes];
        var size = Native.NoticeTake(line, Native.NoticeBytes);
        return size > 0 ? Encoding.UTF8.GetString(line, size) : null;
    }

    private static int Fetch(ulong[] figures, ulong[] kinds, ulong[] lost)
    {
        fixed (ulong* figure = figures, kind = kinds, loss = lost)
            return Native.Stats(figure, (uint)figures.Length, kind, (uint)kinds.Length / 2, loss, (uint)lost.Length / 2);
    }

    private static ProfilerKind[] Measured(ulong[] pairs)
    {
        var kinds = new List<ProfilerKind>();
        for (var i = 0; i < pairs.Length / 2; i++)
            if ((pairs[2 * i] | pairs[2 * i + 1]) != 0)
                kinds.Add(new ProfilerKind((ProfileKinds)(1u << i), Native.KindName(i), Native.KindUnit(i),
                                           (long)pairs[2 * i], (long)pairs[2 * i + 1]));
        return kinds.ToArray();
    }

    private static ProfilerMissing[] Missing(int kinds)
    {
        var missing = new List<ProfilerMissing>();
        for (var i = 1; i < kinds; i++)
            if (Native.Missing(i) is { Length: > 0 } reason)
                missing.Add(new ProfilerMissing((ProfileKinds)(1u << i), Native.KindName(i), reason));
        return missing.ToArray();
    }

    private static ProfilerLoss[] Lost(ulong[] pairs)
    {
        var losses = new List<ProfilerLoss>();
        for (var i = 0; i < pairs.Length / 2; i++)
            if ((pairs[2 * i] | pairs[2 * i + 1]) != 0)
                losses.Add(new ProfilerLoss(Native.LossName(i), (long)pairs[2 * i],
                                            TimeSpan.FromTicks((long)pairs[2 * i + 1] / TimeSpan.NanosecondsPerTick)));
        return losses.ToArray();
    }

    private static int StartLocked(ProfilerOptions options)
    {
        Require(options.MemoryBytes >= 0, nameof(options.MemoryBytes), options.MemoryBytes, "0 or more");
        Require(options.SpoolBytes >= 0, nameof(options.SpoolBytes), options.SpoolBytes, "0 or more");
        Require(options.RateHz >= 0, nameof(options.RateHz), options.RateHz, "1 to 1000, or 0");
        Require(options.BudgetPpm >= 0, nameof(options.BudgetPpm), options.BudgetPpm, "0 or more");
        Require(options.Interval >= TimeSpan.Zero && options.Interval <= TimeSpan.FromHours(1),
                nameof(options.Interval), (long)options.Interval.TotalMilliseconds, "100 ms to 1 hour, or zero", " ms");
        fixed (byte* service = Utf8(Given(options.Service)), tags = Utf8(JoinTags(options.Tags)), version = Utf8(Version()), endpoint = Utf8(Given(options.Endpoint)),
               control = Utf8(options.Control), token = Utf8(options.ControlToken),
               headers = Utf8(JoinHeaders(options.Headers)))
        fixed (byte* pull = Utf8(options.Pull), pullToken = Utf8(options.PullToken), spool = Utf8(options.SpoolDirectory),
               tokenFile = Utf8(options.TokenFile))
        {
            var native = new NativeOptions
            {
                Service = service,
                Tags = tags,
                Version = version,
                Endpoint = endpoint,
                Control = control,
                ControlToken = token,
                Headers = headers,
                Pull = pull,
                PullToken = pullToken,
                Spool = spool,
                TokenFile = tokenFile,
                MemoryBytes = (ulong)options.MemoryBytes,
                SpoolBytes = (ulong)options.SpoolBytes,
                Level = (uint)options.Level,
                RateHz = (uint)options.RateHz,
                IntervalMs = (uint)Math.Ceiling(options.Interval.TotalMilliseconds),
                Format = (uint)options.Format,
                Kinds = (uint)options.Kinds,
                BudgetPpm = (uint)options.BudgetPpm,
                Flags = (options.ThreadLabels ? (uint)Native.FlagThreadLabels : 0)
                        | (options.IdleWaits ? (uint)Native.FlagIdleWaits : 0)
                        | (options.AllEvents ? (uint)Native.FlagAllEvents : 0),
                Names = options.Names switch { null => Native.NamesAsk, true => Native.NamesOn, false => Native.NamesOff },
                Managed = options.Transport is null ? 0u : 1u,
                PullInsecure = options.PullInsecure ? 1u : 0u,
                Incidents = Incidents(options.Incidents),
            };
            Run++; // invalidates the tags' numbers
            RuntimeHooks.Attach();
            var error = StartNative(&native, options.Tls);
            if (error != 0)
                return error;
        }
        if (options.Transport is { } transport)
            TransportPump.Start(transport, Native.MessageRun());
        running = Tracks = true;
        if (Features.Pprof && Native.SendsNames() != 0)
            Names.Begin();
        if (Features.Awaited)
        {
            AsyncProbe.Enable(options.Awaited || Native.AsyncConfigured() != 0);
            Tasks.Begin();
        }
        else if (options.Awaited || Native.AsyncConfigured() != 0)
        {
            Say("no async parents: build the program with EdgeProfAwaited=true");
        }
        if (Features.Incidents)
            SpanWatch.Begin();
        if (Features.Spans)
        {
            TrackOptions(options.SpanSources);
            Spans.Begin();
        }
        else if (options.SpanSources.Count > 0 || !string.IsNullOrEmpty(Environment.GetEnvironmentVariable("EDGEPROF_SPANS")))
        {
            Say("no labels of spans: build the program with EdgeProfSpans=true");
        }
        exitTimeout = options.ExitTimeout;
        ProcessEnd.Watch();
        return 0;
    }

    private static int StartNative(NativeOptions* native, ProfilerTls tls)
    {
        // Read during handshakes, so it must stay in place. The previous one is no longer in use.
        authority = tls.Authority is { Length: > 0 } given ? GC.AllocateArray<byte>(given.Length, pinned: true) : [];
        tls.Authority?.CopyTo(authority, 0);
        fixed (byte* caFile = Utf8(tls.AuthorityFile), pin = Utf8(tls.Pin), certFile = Utf8(tls.CertificateFile),
               keyFile = Utf8(tls.KeyFile), name = Utf8(tls.ServerName), ca = authority, cert = tls.Certificate, key = tls.Key)
        {
            var secure = new NativeTls
            {
                CaFile = caFile,
                Pin = pin,
                CertFile = certFile,
                KeyFile = keyFile,
                ServerName = name,
                Ca = ca,
                Cert = cert,
                Key = key,
                CaSize = (ulong)authority.Length,
                CertSize = (ulong)(tls.Certificate?.Length ?? 0),
                KeySize = (ulong)(tls.Key?.Length ?? 0),
                Flags = tls.AllowUnknownDate ? Native.TlsNoClock : 0,
            };
            return Features.Metrics ? Instruments.Start(native, &secure) : Native.Start(native, &secure);
        }
    }

    private static bool StopLocked(TimeSpan timeout)
    {
        var milliseconds = Milliseconds(timeout);
        var from = Stopwatch.GetTimestamp();
        Tracks = false;
        if (Features.Awaited)
            Tasks.End(milliseconds / 2);
        if (Features.Spans)
            Spans.End();
        if (Features.Incidents)
            SpanWatch.End();
        var delivered = Settle(Math.Max(0, milliseconds - (int)Stopwatch.GetElapsedTime(from).TotalMilliseconds));
        running = false;
        if (Features.Pprof)
            Names.End();
        return delivered;
    }

    private static bool Settle(int milliseconds)
    {
        var error = Native.Stop((uint)milliseconds);
        unsettled = error == -Native.EBusy;
        return error == 0;
    }

    private static int Milliseconds(TimeSpan timeout)
    {
        const int Most = 3_600_000;
        return timeout == Timeout.InfiniteTimeSpan ? Most : (int)Math.Clamp(timeout.TotalMilliseconds, 0, Most);
    }

    /// <summary>Delivers the last profile when the process is about to end. Another thread's Stop may have a longer
    /// timeout: the end does not wait for that.</summary>
    internal static void StopAtEnd()
    {
        if (!Monitor.TryEnter(Gate, Milliseconds(exitTimeout)))
            return;
        try
        {
            Stop(exitTimeout);
        }
        finally
        {
            Monitor.Exit(Gate);
        }
    }

    private static bool Supported()
    {
        if (Native.IsLinked)
            return true;
        if (!unsupportedSaid)
            Say($"not started: {Native.Trouble}");
        unsupportedSaid = true;
        return false;
    }

    /// <summary>Writes a line on standard error. Where it cannot be written, as without a standard error or on a full
    /// disk, the program goes on without it.</summary>
    internal static void Say(string line)
    {
        try
        {
            Console.Error.WriteLine($"edgeprof: {line}");
        }
        catch (Exception)
        {
            // There is no other place for it.
        }
    }

    private static void Fail(int error)
    {
        if (error == 0)
            return;
        if (error == -Native.EInval)
            throw new ArgumentException(Describe(error));
        throw new InvalidOperationException($"the profiler cannot start: {Describe(error)}");
    }

    // A long: text of other types, such as of an enum, would bring much of the runtime's code into each program.
    private static void Require(bool good, string option, long value, string wanted, string unit = "")
    {
        if (!good)
            throw new ArgumentException(option + ": must be " + wanted + ", not " + value.ToString(CultureInfo.InvariantCulture) + unit);
    }

    private static string Describe(int error)
    {
        var text = Native.Error();
        return text.Length > 0 ? text : System.Runtime.InteropServices.Marshal.GetPInvokeErrorMessage(-error);
    }

    /// <summary>The program's informational version, with which the SDK also says of which commit it was built. Where the SDK
    /// writes it, build/EdgeProf.targets passes it on; reading the attribute takes much of reflection's code.</summary>
    private static string? Version()
    {
        try
        {
            var version = Features.VersionByAttribute
                ? Assembly.GetEntryAssembly()?.GetCustomAttribute<AssemblyInformationalVersionAttribute>()?.InformationalVersion
                : AppContext.GetData("EdgeProf.Version") as string;
            return string.IsNullOrEmpty(version) || version.Contains(',') ? null : version;
        }
        catch (Exception)
        {
            return null; // a program without reflection (IlcDisableReflection) does not know it
        }
    }

    private static string? JoinTags(IDictionary<string, string> tags)
    {
        if (tags.Count == 0)
            return null;
        foreach (var (key, value) in tags)
            if (key.AsSpan().IndexOfAny(',', '=') >= 0 || value.Contains(','))
                throw new ArgumentException("tag " + key + "=" + value + ": a key may not contain a comma or equals sign, a value no comma");
        return Join(tags, "=", ",");
    }

    private static string? JoinHeaders(IDictionary<string, string> headers)
    {
        if (headers.Count == 0)
            return null;
        foreach (var (key, value) in headers)
            if (value.Contains('\n'))
                throw new ArgumentException($"the header {key} has a line break in its value");
        return Join(headers, ": ", "\n");
    }

    /// <summary>Without LINQ: its generic methods for a pair, which is a struct, would add 120 KB to a program.</summary>
    private static string Join(IDictionary<string, string> pairs, string between, string behind)
    {
        var text = new StringBuilder();
        foreach (var pair in pairs)
            text.Append(text.Length > 0 ? behind : "").Append(pair.Key).Append(between).Append(pair.Value);
        return text.ToString();
    }

    /// <summary>An empty text, such as a placeholder in a settings file, is none.</summary>
    private static string? Given(string? text) => text is "" ? null : text;

    /// <summary>Null-terminated, or empty for null, which `fixed` turns into a null pointer.</summary>
    private static byte[] Utf8(string? text) => text is null ? [] : Encoding.UTF8.GetBytes(text + '\0');
}
