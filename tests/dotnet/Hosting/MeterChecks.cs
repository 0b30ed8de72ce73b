using System.Diagnostics.Metrics;
using EdgeProf;

/// <summary>The instruments of Meter("EdgeProf") against the statistics.</summary>
internal sealed class MeterChecks(Checks checks, string directory)
{
    private static readonly Dictionary<string, string?> Expected = new()
    {
        ["edgeprof.cost"] = "1", ["edgeprof.cpu.time"] = "s", ["edgeprof.lost"] = "{sample}", ["edgeprof.delivery.messages"] = "{message}",
        ["edgeprof.delivery.size"] = "By", ["edgeprof.delivery.failures"] = "{attempt}", ["edgeprof.spool.messages"] = "{message}",
        ["edgeprof.spool.size"] = "By",
    };

    private readonly Dictionary<string, string?> units = [];
    private readonly Dictionary<string, double> values = [];

    public void Run()
    {
        using var listener = new MeterListener { InstrumentPublished = Listen };
        listener.SetMeasurementEventCallback<long>((instrument, value, tags, _) => Take(instrument, value, tags));
        listener.SetMeasurementEventCallback<double>((instrument, value, tags, _) => Take(instrument, value, tags));
        listener.Start();
        var start = Read(listener); // of the runs before
        Measure($"file://{directory}/meter.profile", true, null);
        var first = Read(listener);
        checks.That(units.OrderBy(pair => pair.Key).SequenceEqual(Expected.OrderBy(pair => pair.Key)), $"instruments: {string.Join(", ", units)}");
        var stats = Profiler.GetStats();
        Same("edgeprof.delivery.messages", first, start, stats.Delivered);
        Same("edgeprof.delivery.size", first, start, stats.DeliveredBytes);
        checks.That(first["edgeprof.cost"] == stats.CostPpm / 1e6, $"edgeprof.cost is {first["edgeprof.cost"]}");
        var own = stats.OwnCpuTime.TotalSeconds;
        var told = first["edgeprof.cpu.time profiler"] - start["edgeprof.cpu.time profiler"];
        checks.That(own > 0 && Math.Abs(told - own) < 1e-6, $"edgeprof.cpu.time of the profiler's threads is {told} s, {own} s by the statistics");

        Measure("http://127.0.0.1:9", false, null);
        var second = Read(listener);
        var lost = Profiler.GetStats().Losses.Single(loss => loss.Reason == "stopped").Count;
        Same("edgeprof.lost stopped", second, first, lost);
        checks.That(first.All(pair => !pair.Key.StartsWith("edgeprof.delivery.messages") || second[pair.Key] == pair.Value), "totals stay over a restart");
        checks.That(second["edgeprof.cpu.time profiler"] > first["edgeprof.cpu.time profiler"], "and grow");

        Measure("http://127.0.0.1:9", true, $"{directory}/meter.spool");
        var third = Read(listener);
        stats = Profiler.GetStats();
        checks.That(stats.SpoolBytes > 0 && third["edgeprof.spool.size"] == stats.SpoolBytes
            && third["edgeprof.spool.messages"] == stats.SpoolMessages, $"edgeprof.spool.size is {third["edgeprof.spool.size"]}");
    }

    private void Measure(string endpoint, bool complete, string? spool)
    {
        Profiler.Start(new ProfilerOptions { Endpoint = endpoint, Level = ProfileLevel.High, SpoolDirectory = spool });
        Work.For(200);
        var all = Profiler.Stop(TimeSpan.FromSeconds(complete ? 10 : 0.2));
        checks.That(all == complete, $"the profile for {endpoint} is {(complete ? "delivered or in the spool" : "lost")}");
    }

    private void Listen(Instrument instrument, MeterListener listener)
    {
        if (instrument.Meter.Name != "EdgeProf")
            return;
        units[instrument.Name] = instrument.Unit;
        listener.EnableMeasurementEvents(instrument);
    }

    private void Take(Instrument instrument, double value, ReadOnlySpan<KeyValuePair<string, object?>> tags) =>
        values[tags.Length == 0 ? instrument.Name : $"{instrument.Name} {tags[0].Value}"] = value;

    private Dictionary<string, double> Read(MeterListener listener)
    {
        values.Clear();
        listener.RecordObservableInstruments();
        return new Dictionary<string, double>(values);
    }

    private void Same(string name, Dictionary<string, double> now, Dictionary<string, double> before, long expected)
    {
        var told = now.GetValueOrDefault(name) - before.GetValueOrDefault(name);
        checks.That(expected > 0 && told == expected, $"{name} grows by {told}, {expected} by the statistics");
    }
}
