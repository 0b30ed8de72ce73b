using EdgeProf;
using EdgeProf.Extensions.Hosting;
using Microsoft.Extensions.Options;

/// <summary>What the section may have, and what is said about the rest.</summary>
internal static class SettingChecks
{
    private static readonly (string Key, string Value, string Says)[] Wrong =
    [
        ("Level", "loud", "Level must be Low, Medium or High, not 'loud'"),
        ("Level", "7", "Level must be Low, Medium or High, not 7"),
        ("Format", "xml", "Format must be Compact or Pprof, not 'xml'"),
        ("Kinds", "cpu, magic", "HeapSizes, Writes, Syncs, not 'cpu, magic'"),
        ("Endpoint", "gateway:4040", "Endpoint must be http://host[:port][/prefix], the same with https, or file:///path, with credentials in Headers, not gateway:4040"),
        ("Endpoint", "http:///prefix", "Endpoint must be http://host"),
        ("Endpoint", "file://relative", "Endpoint must be http://host"),
        ("Endpoint", "/var/lib/profile", "not /var/lib/profile"),
        ("Endpoint", "ftp://user:secret@gateway/", "not ftp://gateway/"),
        ("Endpoint", "http://user:secret@gateway/", "not http://gateway/"),
        ("RateHz", "5000", "RateHz must be 1 to 1000, or 0 for the level's rate, not 5000"),
        ("RateHz", "often", "RateHz must be a whole number, not 'often'"),
        ("BudgetPpm", "-1", "BudgetPpm must be 0 or more, not -1"),
        ("Interval", "00:00:00.05", "Interval must be 00:00:00.1 to 01:00:00, not 00:00:00.05"),
        ("SpoolBytes", "2000000000", "SpoolBytes must be 0 to 1073741824, not 2000000000"),
        ("ShutdownTimeout", "01:00:00", "ShutdownTimeout: must be 00:00:00 to 00:10:00"),
        ("Tls:Key", "-----secret", "Tls:Key must be base64"),
        ("Tls:Certificate", "-----secret", "Tls:Certificate must be base64"),
        ("Tags:a b", "c", "Tags has a b=c"),
        ("Headers:X-Key", "a\nb", "Headers has X-Key; "),
        ("Incidents:Tail", "00:02:00", "Incidents:Tail must be 00:00:00 to 00:01:00, not 00:02:00"),
        ("Incidents:HistoryBytes", "100", "Incidents:HistoryBytes must be 16384 or more, or 0, not 100"),
        ("Incidents:Gap", "-00:00:01", "Incidents:Gap must be 00:00:00 to 1.00:00:00, not -00:00:01"),
        ("Incidents:PerDay", "-1", "Incidents:PerDay must be 0 or more, not -1"),
        ("Endpont", "http://gateway:4040", "EdgeProf: unknown key 'Endpont' (did you mean Endpoint?)"),
        ("Levle", "High", "unknown key 'Levle' (did you mean Level?)"),
        ("Tls:Kee", "x", "unknown key 'Kee' (did you mean Key?)"),
        ("Colour", "red", "unknown key 'Colour'"),
        ("Tags", "a=b", "Tags must be keys with values, not the text 'a=b'"),
        ("Headers", "X-Key: secret", "Headers must be names with values"),
        ("Tls", "on", "Tls must be a section, not the text 'on'"),
    ];

    public static async Task RunAsync(Checks checks)
    {
        foreach (var (key, value, says) in Wrong)
        {
            var error = await ErrorAsync((key, value));
            checks.That(error.Contains(says) && !error.Contains("secret"), $"{key}={value.ReplaceLineEndings(" ")}: {error}");
        }
        var both = await ErrorAsync(("RateHz", "-3"), ("Endpoint", "gateway"));
        checks.That(both.Contains("RateHz") && both.Contains("Endpoint"), $"two errors are reported together: {both}");
        Binds(checks);
    }

    private static async Task<string> ErrorAsync(params (string, string)[] settings)
    {
        var builder = Hosts.Builder(new Lines(), settings);
        builder.Services.AddEdgeProf();
        using var host = builder.Build();
        try
        {
            await host.StartAsync();
            await host.StopAsync();
            return "the host has started";
        }
        catch (OptionsValidationException e)
        {
            return e.Message;
        }
    }

    private static void Binds(Checks checks)
    {
        var builder = Hosts.Builder(new Lines(),
            ("Endpoint", "http://gateway:4040/prefix"), ("Level", "high"), ("Kinds", "Cpu, Lock"), ("Interval", "00:00:30"),
            ("Tags:version", "1.4.2"), ("Tags:device", "pi-7"), ("Headers:X-Scope-OrgID", "a"), ("SpanSources:0", "My.*"),
            ("Tls:Pin", "sha256//x"), ("Names", "false"), ("ShutdownTimeout", "00:00:01"), ("BudgetPpm", "500"),
            ("Incidents:Enabled", "true"), ("Incidents:SpanLimit", "00:00:00.5"), ("Incidents:PerDay", "3"));
        builder.Services.AddEdgeProf(options => options.Level = ProfileLevel.Low);
        using var host = builder.Build();
        var bound = host.Services.GetRequiredService<IOptions<EdgeProfOptions>>().Value;
        checks.That(bound is
        {
            Endpoint: "http://gateway:4040/prefix", Kinds: ProfileKinds.Cpu | ProfileKinds.Lock, Interval.Seconds: 30, Names: false,
            Tags: { Count: 2 }, Headers: { Count: 1 }, SpanSources: ["My.*"], Tls.Pin: "sha256//x", ShutdownTimeout.Seconds: 1,
            BudgetPpm: 500, Enabled: true, Incidents: { Enabled: true, SpanLimit.Milliseconds: 500, PerDay: 3 },
        } && bound.Tags["device"] == "pi-7", "the section is bound");
        checks.That(bound.Level == ProfileLevel.Low, "code wins over the section");
        checks.That(Elsewhere() == "http://elsewhere", "another section is bound");
    }

    private static string? Elsewhere()
    {
        var builder = Hosts.Builder(new Lines(), ("Endpoint", "http://gateway"), ("Nested:Endpoint", "http://elsewhere"));
        builder.Services.AddEdgeProf(builder.Configuration.GetSection("EdgeProf:Nested"));
        using var host = builder.Build();
        return host.Services.GetRequiredService<IOptions<EdgeProfOptions>>().Value.Endpoint;
    }
}
