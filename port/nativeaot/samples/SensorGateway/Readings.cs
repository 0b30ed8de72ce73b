using System.Text.Json.Serialization;

namespace SensorGateway;

/// <summary>One measured value of a sensor. Sensor names look like "plant3/temp-07".</summary>
public sealed record Reading(string Sensor, DateTimeOffset At, double Value, string Unit);

public sealed record Accepted(int Count);

public sealed record Refused(string Error);

public sealed record ReportLine(string Site, string Kind, int Count, double Mean, double Worst, string Label);

public sealed record Aggregate(string Sensor, int Count, double Mean, double Deviation);

/// <summary>CPU time of one burning function, summed over its bursts on all threads.</summary>
public sealed record BurnShare(string Function, long CpuNs, long Bursts, double Percent);

public sealed record BurnTruth(int Threads, long TotalNs, BurnShare[] Shares);

[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(Reading[]))]
[JsonSerializable(typeof(Accepted))]
[JsonSerializable(typeof(Refused))]
[JsonSerializable(typeof(List<ReportLine>))]
[JsonSerializable(typeof(Aggregate[]))]
[JsonSerializable(typeof(BurnTruth))]
[JsonSerializable(typeof(string))]
internal sealed partial class GatewayJson : JsonSerializerContext;
