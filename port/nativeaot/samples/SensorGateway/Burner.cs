namespace SensorGateway;

/// <summary>
/// Runs the burning functions on threads of its own, in parts of 60, 30 and 10, at a bounded share of a core
/// (SENSOR_BURN_THREADS, default 2; SENSOR_BURN_PERCENT of a core for each, default 25). Lengths of bursts and pauses
/// are random, so that nothing runs in step with the kernel's tick, on which every CPU sample lands. Bursts take several
/// ticks: what a thread uses after the last one counts for what it does at the next. SENSOR_BURN_BURSTS: the number of
/// bursts of each thread, so that every run does the same work on any machine (default 0: no limit).
/// </summary>
public sealed class Burner : IHostedService
{
    private static readonly string[] Names = ["Burn.Heavy", "Burn.Medium", "Burn.Light"];
    private static readonly double[] Parts = [0.60, 0.30, 0.10];

    private readonly int threads = Setting("SENSOR_BURN_THREADS", 2, 0, 16);
    private readonly int percent = Setting("SENSOR_BURN_PERCENT", 25, 1, 90);
    private readonly int atMost = Setting("SENSOR_BURN_BURSTS", 0, 0, 1_000_000);
    private readonly List<Thread> running = [];
    private readonly long[] cpuNs = new long[3];
    private readonly long[] bursts = new long[3];
    private readonly double[] roundsPerMs = [100, 50, 50]; // adjusted by the measured duration of bursts
    private volatile bool stopping;
    private long sink;

    public Task StartAsync(CancellationToken cancel)
    {
        for (var i = 0; i < threads; i++)
        {
            var seed = i + 1;
            var thread = new Thread(() => Run(new Random(seed))) { Name = $"burn-{i}", IsBackground = true };
            thread.Start();
            running.Add(thread);
        }
        return Task.CompletedTask;
    }

    public Task StopAsync(CancellationToken cancel)
    {
        stopping = true;
        foreach (var thread in running)
            thread.Join();
        return Task.CompletedTask;
    }

    public BurnTruth Truth()
    {
        var cpu = cpuNs.Select((_, i) => Interlocked.Read(ref cpuNs[i])).ToArray();
        var total = cpu.Sum();
        var shares = Names.Select((name, i) => new BurnShare(name, cpu[i], Interlocked.Read(ref bursts[i]),
                                                             total == 0 ? 0 : Math.Round(100.0 * cpu[i] / total, 3)));
        return new BurnTruth(threads, total, shares.ToArray());
    }

    private void Run(Random random)
    {
        for (var i = 0; !stopping && (atMost == 0 || i < atMost); i++)
        {
            var used = Burst(atMost == 0 ? MostBehind() : i % 10 < 6 ? 0 : i % 10 < 9 ? 1 : 2, random);
            var pauseMs = used / 1e6 * (100 - percent) / percent;
            Thread.Sleep((int)Math.Round(pauseMs * (0.5 + random.NextDouble())));
        }
    }

    private int MostBehind()
    {
        var next = 0;
        for (var i = 1; i < 3; i++)
            if (Interlocked.Read(ref cpuNs[i]) / Parts[i] < Interlocked.Read(ref cpuNs[next]) / Parts[next])
                next = i;
        return next;
    }

    private long Burst(int which, Random random)
    {
        var milliseconds = 5 + 30 * random.NextDouble();
        var rounds = Math.Max(1, (int)(Volatile.Read(ref roundsPerMs[which]) * milliseconds));
        var before = ThreadClock.Nanoseconds();
        var result = which switch
        {
            0 => (long)Burn.Heavy(rounds),
            1 => (long)Burn.Medium(rounds),
            _ => Burn.Light(rounds),
        };
        var used = Math.Max(1, ThreadClock.Nanoseconds() - before);
        Interlocked.Add(ref cpuNs[which], used);
        Interlocked.Increment(ref bursts[which]);
        if (atMost == 0)
            Volatile.Write(ref roundsPerMs[which], 0.9 * roundsPerMs[which] + 0.1 * rounds / (used / 1e6));
        Volatile.Write(ref sink, result); // keeps the work from being optimised away
        return used;
    }

    private static int Setting(string name, int otherwise, int least, int most)
    {
        var text = Environment.GetEnvironmentVariable(name);
        if (string.IsNullOrEmpty(text))
            return otherwise;
        if (int.TryParse(text, out var value) && value >= least && value <= most)
            return value;
        Console.Error.WriteLine($"SensorGateway: {name}={text}: expected a whole number from {least} to {most}");
        Environment.Exit(2);
        return otherwise;
    }
}
