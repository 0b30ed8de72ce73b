using Microsoft.Extensions.Logging;

namespace EdgeProf.Extensions.Hosting;

/// <summary>The messages of the category <c>EdgeProf</c>.</summary>
internal static partial class EdgeProfLog
{
    [LoggerMessage(1, LogLevel.Information, "profiling at level {Level}; profiles go to {Target}")]
    public static partial void Started(this ILogger log, ProfileLevel level, string target);

    [LoggerMessage(2, LogLevel.Information, "not started: {Reason}")]
    public static partial void Idle(this ILogger log, string reason);

    [LoggerMessage(3, LogLevel.Error, "not started: {Reason}")]
    public static partial void Failed(this ILogger log, string reason);

    [LoggerMessage(4, LogLevel.Warning, "{Notice}")]
    public static partial void Notice(this ILogger log, string notice);

    [LoggerMessage(5, LogLevel.Information, "{Notice}")]
    public static partial void Again(this ILogger log, string notice);

    [LoggerMessage(6, LogLevel.Warning, "{Count} samples lost: {Reason}; further ones are only counted")]
    public static partial void Lost(this ILogger log, long count, string reason);

    [LoggerMessage(7, LogLevel.Warning, "the spool in {Directory} cannot store profiles, they stay in memory: {Reason}")]
    public static partial void SpoolFailed(this ILogger log, string directory, string reason);

    [LoggerMessage(8, LogLevel.Information, "stopped: {Delivered} messages delivered, {Spooled} in the spool, {Lost} samples lost, cost {Cost:P2} of the CPU time")]
    public static partial void Stopped(this ILogger log, long delivered, long spooled, long lost, double cost);

    [LoggerMessage(9, LogLevel.Warning, "the last profile was not delivered within {Timeout}")]
    public static partial void NotDelivered(this ILogger log, TimeSpan timeout);

    [LoggerMessage(10, LogLevel.Information, "stopped: {Reason}")]
    public static partial void SwitchedOff(this ILogger log, string reason);
}
