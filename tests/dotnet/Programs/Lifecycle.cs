// What lifecycle.sh runs: the profiler's start, stop and end of process, seen from a program.
//
//   https ENDPOINT CA CERTIFICATE KEY OTHER   delivers with these, and says why it cannot with another CA
//   api DIRECTORY     starts and stops from code, checks what the API promises
//   storm DIRECTORY STOPS   starts and stops while threads wait, lock, allocate, throw and receive
//   return | exit     works a little, then returns 3 from Main / calls Environment.Exit(5)
//   stuck             profiles to a stream that gets stuck, returns 4 from Main
//   held FILE         stops while a thread stays within the profiler, returns 10
//   wait              works a little, says ready, waits to be killed
//   cancel            like wait, but handles SIGTERM itself and then returns 7
//   graceful          sends SIGTERM to itself, handles it, works in Work.Shutdown() and returns 8
//   handover          the environment has started a profiler; starts its own and compares the time with a Stop's
//   leaving           returns 6 from Main while another thread's Stop waits for a server
//   context           starts with async parents in a synchronization context, returns 9
//   empty             the environment has started a profiler; starts its own with empty texts, returns 9
//
// Prints what its own handlers saw, so that runs with and without the profiler can be compared.
using System.Diagnostics;
using System.Net.Sockets;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;
using EdgeProf;

internal static class LifecycleProgram
{
    public static int Run(string[] args)
    {
        AppDomain.CurrentDomain.ProcessExit += (_, _) => Console.WriteLine("process exit seen");
        switch (args)
        {
            case ["api", var directory]:
                return new ApiChecks(directory).Run();
            case ["https", var endpoint, var authority, var certificate, var key, var other]:
                return Https(endpoint, authority, certificate, key, other);
            case ["storm", var directory, var stops]:
                return new Storm(directory, int.Parse(stops)).Run();
            case ["return"]:
                Work.For(300);
                return 3;
            case ["exit"]:
                Work.For(300);
                Environment.Exit(5);
                return 0;
            case ["stuck"]:
                return Stuck();
            case ["held", var path]:
                return Held(path);
            case ["wait"]:
                Work.For(300);
                Console.WriteLine("ready");
                Thread.Sleep(20_000);
                return 1;
            case ["cancel"]:
                return Cancel();
            case ["graceful"]:
                return Graceful();
            case ["handover"]:
                return Handover();
            case ["leaving"]:
                return Leaving();
            case ["context"]:
                return Context();
            case ["empty"]:
                Profiler.Start(new ProfilerOptions { Endpoint = "", Service = "" });
                Work.For(300);
                return Profiler.Stop(TimeSpan.FromSeconds(10)) ? 9 : 1;
            default:
                Console.Error.WriteLine("Lifecycle: expected https ..., api DIRECTORY, storm DIRECTORY STOPS, return, exit, stuck, held FILE, wait, cancel, graceful, handover, leaving, context or empty");
                return 2;
        }
    }

    private static int Https(string endpoint, string authority, string certificate, string key, string other)
    {
        foreach (var file in new[] { authority, other })
        {
            Profiler.Start(new ProfilerOptions
            {
                Service = "by-options",
                Endpoint = endpoint,
                Tls = new ProfilerTls
                {
                    Authority = File.ReadAllBytes(file),
                    Certificate = File.ReadAllBytes(certificate),
                    KeyFile = key,
                },
            });
            Work.For(300);
            if (Profiler.Stop(TimeSpan.FromSeconds(file == other ? 1 : 10)) != (file == authority))
                return 1;
        }
        Console.WriteLine(Profiler.GetStats().LastErrorText);
        return 0;
    }

    private static int Cancel()
    {
        using var stop = new ManualResetEventSlim();
        using var registration = PosixSignalRegistration.Create(PosixSignal.SIGTERM, context =>
        {
            context.Cancel = true;
            stop.Set();
        });
        Work.For(300);
        Console.WriteLine("ready");
        if (!stop.Wait(20_000))
            return 1;
        Work.For(100); // still profiled
        Console.WriteLine("stopped by choice");
        return 7;
    }

    private static int Graceful()
    {
        var sent = new Stopwatch();
        using var stop = new ManualResetEventSlim();
        using var registration = PosixSignalRegistration.Create(PosixSignal.SIGTERM, context =>
        {
            context.Cancel = true;
            sent.Stop();
            stop.Set();
        });
        Work.For(200);
        sent.Start();
        if (Work.Kill(Environment.ProcessId, 15) != 0 || !stop.Wait(20_000))
            return 1;
        // The profiler may wait two seconds for its server when the process ends, not before the program knows of it.
        Console.WriteLine(sent.ElapsedMilliseconds < 1000 ? "told at once" : $"told {sent.ElapsedMilliseconds} ms after the signal");
        Work.Shutdown();
        return 8;
    }

    private static int Handover()
    {
        var options = new ProfilerOptions { Service = "by-code" };
        var automatic = Profiler.IsRunning;
        Work.For(100);
        var start = Stopwatch.StartNew();
        Profiler.Start(options);
        start.Stop();
        Work.For(100);
        var stop = Stopwatch.StartNew();
        Profiler.Stop(options.ExitTimeout);
        stop.Stop();
        Console.WriteLine($"Start {start.ElapsedMilliseconds} ms, Stop {stop.ElapsedMilliseconds} ms");
        return automatic && start.Elapsed < stop.Elapsed / 2 ? 9 : 1;
    }

    private static int Leaving()
    {
        Profiler.Start(new ProfilerOptions { Endpoint = "http://127.0.0.1:9", ExitTimeout = TimeSpan.FromMilliseconds(300) });
        Work.For(200);
        new Thread(static () => Profiler.Stop(TimeSpan.FromMinutes(10))) { IsBackground = true }.Start();
        while (Profiler.IsTracking) // until it stops
            Thread.Sleep(1);
        return 6;
    }

    private static int Context()
    {
        SynchronizationContext.SetSynchronizationContext(new OtherContext());
        Profiler.Start(new ProfilerOptions { Endpoint = "file:///dev/null", Awaited = true });
        Work.For(300);
        Console.WriteLine(Profiler.GetStats().AwaitedUnavailable);
        return Profiler.GetStats().AwaitedUnavailable.Length == 0 ? 9 : 1;
    }

    private static int Stuck()
    {
        var stream = new StuckStream();
        Profiler.Start(new ProfilerOptions
        {
            Interval = TimeSpan.FromMilliseconds(100),
            RateHz = 250,
            Transport = new StreamTransport(stream),
            ExitTimeout = TimeSpan.FromMilliseconds(300),
        });
        while (!stream.Entered.Wait(0))
            Work.For(50);
        Console.WriteLine("stuck");
        return 4;
    }

    /// <summary>The main thread is as one that a debugger has stopped within a sample. Stop keeps to its timeout,
    /// and the next Stop completes it.</summary>
    private static int Held(string path)
    {
        var timeout = TimeSpan.FromSeconds(1);
        var options = new ProfilerOptions { Endpoint = $"file://{path}", Interval = TimeSpan.FromMinutes(1) };
        Profiler.Start(options);
        Work.For(300);
        var entered = Work.Enter() != 0;
        var from = Stopwatch.GetTimestamp();
        var stopped = Profiler.Stop(timeout);
        var took = Stopwatch.GetElapsedTime(from) / timeout;
        var stats = Profiler.GetStats();
        Console.WriteLine($"stop took {took:F1} timeouts, {stats.Delivered} profiles of {stats.Samples} samples delivered {stats.LastErrorText}");
        var good = entered && !stopped && !Profiler.IsRunning && took < 10 && stats.Delivered > 0 && stats.BusyStops > 0;
        try
        {
            Profiler.Start(options);
            good = false;
        }
        catch (InvalidOperationException e)
        {
            Console.WriteLine(e.Message);
        }
        Work.Leave();
        good &= Profiler.Stop(timeout) && Profiler.Start(options) && Profiler.Stop(timeout);
        return good ? 10 : 1;
    }

    /// <summary>As a user interface has one.</summary>
}

internal sealed class OtherContext : SynchronizationContext;

internal static partial class Work
{
    [DllImport("libc", EntryPoint = "kill")]
    public static extern int Kill(int process, int signal);

    [DllImport("edgeprof", EntryPoint = "ep_hold")]
    public static extern nint Enter();

    [DllImport("edgeprof", EntryPoint = "ep_release")]
    public static extern void Leave();

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Shutdown() => For(300);
}

internal sealed class ApiChecks(string directory)
{
    private int failures;

    public int Run()
    {
        Check(Profiler.IsSupported, "the library is linked");
        Check(!Profiler.IsRunning && Profiler.GetStats().Samples == 0, "nothing runs before Start");
        Check(!Profiler.Stop(TimeSpan.Zero), "Stop without Start is false");
        Properties();
        for (var round = 0; round < 3; round++)
            Round(round);
        Refuses<ArgumentException>(new() { Endpoint = "ftp://nowhere" }, "an endpoint of an unknown kind");
        Refuses<ArgumentException>(new() { Level = (ProfileLevel)7 }, "a level that does not exist");
        Refuses<ArgumentException>(new() { RateHz = 5000 }, "a rate that is too high");
        Refuses<ArgumentException>(new() { Tags = { ["a,b"] = "c" } }, "a tag that is none");
        Refuses<ArgumentException>(new() { Interval = TimeSpan.FromMilliseconds(1) }, "an interval that is too short");
        Refuses<ArgumentException>(new() { MemoryBytes = -1 }, "negative memory");
        Refuses<ArgumentException>(new() { Control = "9", ControlToken = "short" }, "a control port without a good token");
        Refuses<ArgumentException>(new() { Control = "/" + new string('x', 200) }, "a control socket with too long a path");
        Refuses<ArgumentException>(new() { TokenFile = "/" + new string('x', 300) }, "a token file with too long a path");
        Refuses<InvalidOperationException>(new() { MemoryBytes = 100 }, "too little memory");
        TokenFromFile("first");
        TokenFromFile("second");
        new StreamChecks(directory, Check).Run();
        Console.WriteLine($"api: {failures} failures");
        return failures == 0 ? 0 : 1;
    }

    /// <summary>Reading a property is cheap. A property that is not listed here is a failure, too.</summary>
    private void Properties()
    {
        (string Name, Func<bool> Read)[] properties =
        [
            ("IsConfiguredByEnvironment", static () => Profiler.IsConfiguredByEnvironment),
            ("IsRunning", static () => Profiler.IsRunning),
            ("IsSupported", static () => Profiler.IsSupported),
            ("IsTracking", static () => Profiler.IsTracking),
            ("KeepNotices", static () => Profiler.KeepNotices),
            ("Kinds", static () => Profiler.Kinds == ProfileKinds.None),
            ("Level", static () => Profiler.Level == ProfileLevel.Default),
            ("UnsupportedReason", static () => Profiler.UnsupportedReason.Length == 0),
        ];
        foreach (var (name, read) in properties)
        {
            _ = read(); // what happens once does not count
            var before = GC.GetAllocatedBytesForCurrentThread();
            _ = read();
            var bytes = GC.GetAllocatedBytesForCurrentThread() - before;
            Check(bytes == 0, $"reading {name} allocates {bytes} bytes");
        }
        var names = typeof(Profiler).GetProperties(BindingFlags.Public | BindingFlags.Static).Select(static property => property.Name).Order().ToArray();
        Check(names.SequenceEqual(properties.Select(static property => property.Name)), $"each property is among them: {string.Join(", ", names)}");
    }

    /// <summary>The first request of a run has the token that the file of that run has.</summary>
    private void TokenFromFile(string token)
    {
        var path = Path.Combine(directory, $"token-{token}");
        File.WriteAllText(path, token + "\n");
        using var server = new System.Net.Sockets.TcpListener(System.Net.IPAddress.Loopback, 0);
        server.Start();
        Check(Profiler.Start(new() { Endpoint = $"http://{server.LocalEndpoint}", TokenFile = path }), "a token file is taken");
        Work.For(200);
        var request = "";
        var reader = new Thread(() =>
        {
            using var client = server.AcceptSocket();
            var bytes = new byte[4096];
            for (var size = 1; size > 0 && !request.Contains("\r\n\r\n");)
                request += System.Text.Encoding.Latin1.GetString(bytes, 0, size = client.Receive(bytes));
        }) { IsBackground = true };
        reader.Start();
        Profiler.Stop(TimeSpan.FromSeconds(5));
        Check(reader.Join(TimeSpan.FromSeconds(10)) && request.Contains($"\r\nAuthorization: Bearer {token}\r\n"),
              $"the request has the token {token} of the file");
    }

    private void Round(int round)
    {
        var path = Path.Combine(directory, $"round-{round}.profile");
        var options = new ProfilerOptions
        {
            Service = $"lifecycle-ä{round}", // UTF-8 on its way
            Endpoint = $"file://{path}",
            Tags = { ["round"] = $"{round}", ["where"] = "test" },
            Level = ProfileLevel.High,
            MemoryBytes = round switch { 0 => 0, 1 => 96 * 1024, _ => 1024 * 1024 },
            Interval = TimeSpan.FromMilliseconds(200),
            Control = round == 1 ? Control : null,
            ControlToken = "a token of the test",
        };
        Check(Profiler.Start(options) && Profiler.IsRunning, $"round {round} starts");
        Refuses<InvalidOperationException>(options, "a second start");
        Levels();
        if (round == 1)
            FromOutside();
        Check(File.Exists(Control) == (round == 1), "the control endpoint is there when it was asked for");
        Work.For(400);
        Profiler.Flush();
        Check(Profiler.Stop(TimeSpan.FromSeconds(10)), $"round {round} stops, all delivered");
        var stats = Profiler.GetStats();
        Check(!Profiler.IsRunning, "stopped is stopped");
        Check(stats.Samples > 20, $"samples were taken: {stats.Samples}");
        Check(stats.Samples <= stats.ExactStacks + stats.StacksWithGap + stats.CutStacks, "every stack has a quality");
        Check(stats.ExactStacks > stats.Samples / 2, $"most stacks are exact: {stats.ExactStacks} of {stats.Samples}");
        Check(stats.Delivered > 0 && stats.Delivered == stats.Messages, $"{stats.Messages} messages, {stats.Delivered} delivered");
        Check(stats.MemoryUsed > 0 && stats.Modules > 1 && stats.RuleHits > stats.RuleMisses, "memory, modules and rules are counted");
        Check(stats.SampledCpuTime > TimeSpan.FromMilliseconds(100), $"sampled CPU time {stats.SampledCpuTime}");
        Check(stats.Kinds.Any(kind => kind is { Kind: ProfileKinds.Cpu, Unit: "nanoseconds", Value: > 0 }), "CPU time is counted by kind");
        Check(stats.Losses.Count == 0, $"nothing is lost: {string.Join(", ", stats.Losses)}");
        Check(File.Exists(path) && new FileInfo(path).Length == stats.DeliveredBytes + 4 * stats.Delivered, "the file has it");
    }

    private string Control => Path.Combine(directory, "control");

    /// <summary>The same over the control endpoint, which wants the token.</summary>
    private void FromOutside()
    {
        Check(Ask("/level?low", "no token").Contains(" 401 ") && Profiler.Level == ProfileLevel.High, "a wrong token changes nothing");
        Check(Ask("/level?low", "a token of the test").Contains(" 200 ") && Profiler.Level == ProfileLevel.Low, "low by the endpoint");
        Profiler.Level = ProfileLevel.High;
    }

    private string Ask(string target, string token)
    {
        using var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        socket.Connect(new UnixDomainSocketEndPoint(Control));
        socket.Send(Encoding.ASCII.GetBytes($"POST {target} HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n"));
        var answer = new byte[1000];
        return Encoding.ASCII.GetString(answer, 0, socket.Receive(answer));
    }

    /// <summary>Level and kinds while it runs; ends where it began.</summary>
    private void Levels()
    {
        Check(Profiler.Level == ProfileLevel.High && Profiler.Kinds.HasFlag(ProfileKinds.Cpu), "the level is the one asked for");
        Profiler.Level = ProfileLevel.Low;
        Check(Profiler.Level == ProfileLevel.Low && Profiler.Kinds == ProfileKinds.Cpu, "low is CPU alone");
        Check(Profiler.Enable(ProfileKinds.Lock) && Profiler.Kinds == (ProfileKinds.Cpu | ProfileKinds.Lock), "a kind more");
        Check(Profiler.Disable(ProfileKinds.Lock) && Profiler.Kinds == ProfileKinds.Cpu, "a kind less");
        Profiler.Level = ProfileLevel.High;
    }

    private void Refuses<T>(ProfilerOptions options, string what) where T : Exception
    {
        try
        {
            Profiler.Start(options);
            Check(false, $"{what} is refused");
        }
        catch (T e)
        {
            Check(e.Message.Length > 10 && !e.Message.Contains('\n'), $"{what} is refused with a line: {e.Message}");
        }
    }

    private void Check(bool good, string what)
    {
        if (!good)
            failures++;
        Console.WriteLine($"{(good ? "ok  " : "FAIL")} {what}");
    }
}
