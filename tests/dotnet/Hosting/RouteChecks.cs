using EdgeProf;
using OpenTelemetry.Trace;

/// <summary>The label endpoint of ASP.NET Core's requests is their route, with and without OpenTelemetry.</summary>
internal sealed class RouteChecks(Checks checks, string directory)
{
    private const int SlowMs = 300;
    private readonly List<(string Where, uint Tags)> seen = [];

    public async Task RunAsync()
    {
        await RequestsAsync("AddEdgeProf() alone", null, true);
        await RequestsAsync("with the instrumentation of OpenTelemetry", static tracing => tracing.AddAspNetCoreInstrumentation().AddEdgeProf(), true);
        await RequestsAsync("with the spans of ASP.NET Core", static tracing => tracing.AddSource("Microsoft.AspNetCore").AddEdgeProf(), true);
        await RequestsAsync("with spans that a sampler drops", static tracing =>
            tracing.AddAspNetCoreInstrumentation().SetSampler(new AlwaysOffSampler()).AddEdgeProf(), true);
    }

    public Task OffAsync() => RequestsAsync("RouteLabels is false", null, false);

    private async Task RequestsAsync(string what, Action<TracerProviderBuilder>? trace, bool labels)
    {
        await using var app = Make(trace, labels);
        await app.StartAsync();
        using var client = new HttpClient { BaseAddress = new Uri(app.Urls.First()) };
        seen.Clear();
        foreach (var path in new[] { "/orders/7", "/nowhere", "/broken/1", "/orders/8" })
            using (await client.GetAsync(path))
            {
            }
        using (await client.PostAsync("/group/items/9", null))
        {
        }
        uint none = 0, orders = Endpoint("/orders/{id}"), broken = Endpoint("/broken/{id}"), items = Endpoint("/group/items/{id:int}");
        Expect(what, "before routing", trace is null ? [none, none, none, none, none] : null);
        Expect(what, "handler", labels ? [orders, orders] : [none, none]);
        Expect(what, "after await", labels ? [orders, orders] : [none, none]);
        Expect(what, "error page", labels ? [broken] : [none]);
        Expect(what, "item", labels ? [items] : [none]);
        await app.StopAsync();
    }

    private void Expect(string what, string where, uint[]? labels)
    {
        var found = seen.Where(pair => pair.Where == where).Select(static pair => pair.Tags).ToArray();
        if (labels is not null)
            checks.That(found.SequenceEqual(labels), $"{what}: {where}: label sets {string.Join(" ", found)}, expected {string.Join(" ", labels)}");
    }

    private static uint Endpoint(string name) => Native.Set(0, "endpoint", name);

    private void See(string where)
    {
        lock (seen)
            seen.Add((where, Native.Tags()));
    }

    private WebApplication Make(Action<TracerProviderBuilder>? trace, bool labels)
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.WebHost.UseUrls("http://127.0.0.1:0");
        builder.Logging.ClearProviders();
        builder.Services.AddEdgeProf(options =>
        {
            (options.Endpoint, options.RouteLabels) = ($"file://{directory}/routes.profile", labels);
            options.Incidents = new ProfilerIncidents { Enabled = true, SpanLimit = TimeSpan.FromMilliseconds(SlowMs), Gap = TimeSpan.FromMilliseconds(1) };
        });
        if (trace is not null)
            builder.Services.AddOpenTelemetry().WithTracing(trace);
        var app = builder.Build();
        app.Use((context, next) =>
        {
            if (!context.Items.ContainsKey("seen")) // the error page's request passes a second time
                See("before routing");
            context.Items["seen"] = true;
            return next(context);
        });
        app.UseExceptionHandler("/error");
        app.UseRouting();
        app.MapGet("/orders/{id}", async (string id) =>
        {
            See("handler");
            await Task.Delay(id == "8" && trace is not null ? 2 * SlowMs : 1);
            await Task.Yield();
            See("after await");
            return id;
        });
        app.MapGet("/broken/{id}", string (string id) => throw new InvalidDataException(id));
        app.Map("/error", () => See("error page"));
        app.MapGroup("/group").MapPost("/items/{id:int}", (int id) => See("item"));
        return app;
    }
}
