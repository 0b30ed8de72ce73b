// A small sensor gateway: takes readings as JSON, aggregates them in the background, signs and reports.
// It is a service to be profiled: each endpoint exercises another part of the runtime, and three functions
// (Burn.cs) use CPU in known parts.
//
//   SensorGateway                                   serve (ASPNETCORE_URLS says where)
//   SensorGateway --load URL --seconds N            drive every endpoint of a running one
using System.Text.Json;
using SensorGateway;

if (Array.IndexOf(args, "--load") >= 0)
    return await LoadDriver.RunAsync(args);

var builder = WebApplication.CreateSlimBuilder(args);
builder.Logging.SetMinimumLevel(LogLevel.Warning);
builder.Services.ConfigureHttpJsonOptions(options =>
    options.SerializerOptions.TypeInfoResolverChain.Insert(0, GatewayJson.Default));
builder.Services.AddSingleton<ReadingStore>();
builder.Services.AddSingleton<Aggregates>();
builder.Services.AddSingleton<Signer>();
builder.Services.AddSingleton<Burner>();
builder.Services.AddHostedService<AggregatingWorker>();
builder.Services.AddHostedService(services => services.GetRequiredService<Burner>());

var app = builder.Build();
app.UseRouting();
Labels.Use(app);

app.MapGet("/health", () => "ok");

app.MapPost("/readings", (Reading[] readings, ReadingStore store) =>
{
    try
    {
        return Results.Ok(new Accepted(store.Add(readings)));
    }
    catch (BadReadingException e)
    {
        return Results.BadRequest(new Refused(e.Message));
    }
});

app.MapGet("/report", (ReadingStore store, Signer signer, HttpResponse response, string? site) =>
{
    using var forSite = Labels.Site(site);
    var lines = Report.Build(store.Snapshot(), site);
    response.Headers["X-Signature"] = signer.Sign(lines);
    return Results.Ok(lines);
});

app.MapGet("/aggregates", (Aggregates aggregates) => Results.Ok(aggregates.Current));

// What the burning functions have used, by their own clocks.
app.MapGet("/burn", (Burner burner) => Results.Ok(burner.Truth()));

app.Lifetime.ApplicationStarted.Register(() => Console.WriteLine($"sensor gateway: {string.Join(' ', app.Urls)}"));
var burner = app.Services.GetRequiredService<Burner>();
app.Run();
// Now the burning functions have ended, so this is the whole of what they have used.
Console.WriteLine(JsonSerializer.Serialize(burner.Truth(), GatewayJson.Default.BurnTruth));
return 0;
