// What hosting.py runs: the package EdgeProf.Extensions.Hosting and the meter, seen from a program.
//
//   Hosting DIRECTORY   checks everything, one line each; profiles go to files in the directory
//   Hosting --disabled  a host that wants no profiler; EDGEPROF_ENDPOINT is set
//   Hosting --jit       a host on CoreCLR: the profiler says once that it cannot run
//   Hosting --service   a web service until SIGTERM
using System.Diagnostics;
using EdgeProf;

var checks = new Checks();
if (args is ["--service"])
    Service.Run();
else if (args is ["--jit"])
    await HostChecks.JitAsync(checks);
else if (args is ["--disabled"])
    await HostChecks.DisabledAsync(checks);
else if (args is [var directory])
{
    await SettingChecks.RunAsync(checks);
    var routes = new RouteChecks(checks, directory);
    await routes.OffAsync(); // labels by route, once on, stay on
    await new HostChecks(checks, directory).RunAsync();
    await routes.RunAsync();
    await IdleChecks.RunAsync(checks, directory);
    new MeterChecks(checks, directory).Run();
}
else
    checks.That(false, "expected DIRECTORY, --disabled, --jit or --service");
return checks.Failures == 0 ? 0 : 1;

internal sealed class Checks
{
    public int Failures { get; private set; }

    public void That(bool good, string what)
    {
        Console.WriteLine($"{(good ? "ok  " : "FAIL")} {what}");
        Failures += good ? 0 : 1;
    }
}

internal static partial class Work
{
    /// <summary>Whether it becomes true before a minute is over.</summary>
    public static async Task<bool> UntilAsync(Func<Task<bool>> condition)
    {
        for (var tries = 0; tries < 300; tries++, await Task.Delay(200))
            if (await condition())
                return true;
        return false;
    }
}

internal static class Hosts
{
    /// <summary>A host with nothing but a log and these settings.</summary>
    public static HostApplicationBuilder Builder(Lines lines, params (string Key, string Value)[] settings)
    {
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        builder.Configuration.AddInMemoryCollection(settings.Select(pair => KeyValuePair.Create("EdgeProf:" + pair.Key, (string?)pair.Value)));
        builder.Logging.AddProvider(lines);
        return builder;
    }
}

/// <summary>A log that keeps the lines of EdgeProf.</summary>
internal sealed class Lines : ILoggerProvider, ILogger
{
    private readonly List<string> lines = [];

    public string[] All
    {
        get
        {
            lock (lines)
                return lines.ToArray();
        }
    }

    public int Count(string text) => All.Count(line => line.Contains(text));

    public ILogger CreateLogger(string categoryName) => categoryName == "EdgeProf" ? this : Microsoft.Extensions.Logging.Abstractions.NullLogger.Instance;

    public void Log<TState>(LogLevel level, EventId id, TState state, Exception? exception, Func<TState, Exception?, string> text)
    {
        lock (lines)
            lines.Add($"{level}: {text(state, exception)}");
    }

    public bool IsEnabled(LogLevel logLevel) => true;

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public void Dispose()
    {
    }
}
