namespace SensorGateway;

/// <summary>The last result of the worker, swapped whole.</summary>
public sealed class Aggregates
{
    private volatile Aggregate[] current = [];
    public Aggregate[] Current { get => current; set => current = value; }
}

/// <summary>Four times a second: mean and deviation of each sensor's readings.</summary>
public sealed class AggregatingWorker(ReadingStore store, Aggregates aggregates) : BackgroundService
{
    protected override async Task ExecuteAsync(CancellationToken stop)
    {
        using var timer = new PeriodicTimer(TimeSpan.FromMilliseconds(250));
        while (await timer.WaitForNextTickAsync(stop))
            aggregates.Current = Compute(store.Snapshot());
    }

    private static Aggregate[] Compute(Reading[] readings)
    {
        var sums = new Dictionary<string, (int Count, double Sum, double Squares)>();
        foreach (var reading in readings)
        {
            sums.TryGetValue(reading.Sensor, out var sum);
            sums[reading.Sensor] = (sum.Count + 1, sum.Sum + reading.Value, sum.Squares + reading.Value * reading.Value);
        }
        return sums.Select(pair => Aggregated(pair.Key, pair.Value)).OrderByDescending(a => a.Deviation).ToArray();
    }

    private static Aggregate Aggregated(string sensor, (int Count, double Sum, double Squares) sum)
    {
        var mean = sum.Sum / sum.Count;
        var variance = Math.Max(0, sum.Squares / sum.Count - mean * mean);
        return new Aggregate(sensor, sum.Count, Math.Round(mean, 4), Math.Round(Math.Sqrt(variance), 4));
    }
}
