namespace SensorGateway;

public sealed class BadReadingException(string message, Exception? inner = null) : Exception(message, inner);

/// <summary>The newest readings, bounded. One lock guards them, on purpose: it is contended under load.</summary>
public sealed class ReadingStore
{
    private const int Capacity = 4096;
    private readonly object gate = new();
    private readonly Queue<Reading> readings = new(Capacity);

    /// <exception cref="BadReadingException">A reading is invalid; nothing of the batch is stored.</exception>
    public int Add(Reading[] batch)
    {
        foreach (var reading in batch)
            Check(reading);
        lock (gate)
        {
            foreach (var reading in batch)
            {
                if (readings.Count == Capacity)
                    readings.Dequeue();
                readings.Enqueue(reading);
            }
        }
        return batch.Length;
    }

    public Reading[] Snapshot()
    {
        lock (gate)
            return readings.ToArray();
    }

    private static void Check(Reading reading)
    {
        try
        {
            SensorName.Parse(reading.Sensor);
        }
        catch (FormatException e)
        {
            throw new BadReadingException($"sensor '{reading.Sensor}': {e.Message}", e);
        }
        if (!double.IsFinite(reading.Value) || Math.Abs(reading.Value) > 1e6)
            throw new BadReadingException($"sensor '{reading.Sensor}': value {reading.Value} is out of range");
    }
}
