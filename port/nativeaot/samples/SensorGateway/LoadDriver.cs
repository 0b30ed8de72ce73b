using System.Net;
using System.Net.Http.Headers;
using System.Text;
using System.Text.Json;

namespace SensorGateway;

/// <summary>
/// --load URL --seconds N [--clients C] [--requests R]: drives every endpoint of a gateway on this machine, with good
/// and bad input, until the time is over or R requests (MaxRequests) were made; each client makes the same ones in
/// every run. Only loopback addresses are accepted.
/// </summary>
internal static class LoadDriver
{
    private const int MaxRequests = 200_000;
    private static readonly string[] Kinds = ["temp", "hum", "vib", "press", "flow"];

    public static async Task<int> RunAsync(string[] args)
    {
        if (!TryParse(args, out var url, out var seconds, out var clients, out var requests))
            return 2;
        using var http = new HttpClient { BaseAddress = url, Timeout = TimeSpan.FromSeconds(10) };
        using var stop = new CancellationTokenSource(TimeSpan.FromSeconds(seconds));
        var counts = new Counts();
        await Task.WhenAll(Enumerable.Range(0, clients).Select(i => ClientAsync(http, i, requests / clients, counts, stop.Token)));
        Console.WriteLine($"load: {counts.Sent} requests, {counts.BadOnPurpose} bad on purpose, {counts.Unexpected} unexpected answers");
        return counts.Unexpected == 0 && counts.Sent > 0 ? 0 : 1;
    }

    private sealed class Counts
    {
        public int Sent, BadOnPurpose, Unexpected;
    }

    private static async Task ClientAsync(HttpClient http, int seed, int requests, Counts counts, CancellationToken stop)
    {
        var random = new Random(seed);
        for (var i = 0; i < requests && !stop.IsCancellationRequested; i++)
        {
            Interlocked.Increment(ref counts.Sent);
            try
            {
                await OneAsync(http, random, counts);
                await Task.Delay(random.Next(2, 20), stop);
            }
            catch (OperationCanceledException) when (stop.IsCancellationRequested)
            {
            }
            catch (Exception e) when (e is HttpRequestException or TaskCanceledException)
            {
                if (Interlocked.Increment(ref counts.Unexpected) == 1)
                    Console.Error.WriteLine($"load: {e.Message}");
                await Task.Delay(200, CancellationToken.None);
            }
        }
    }

    private static async Task OneAsync(HttpClient http, Random random, Counts counts)
    {
        var (path, body, expected) = Choose(random);
        using var request = new HttpRequestMessage(body is null ? HttpMethod.Get : HttpMethod.Post, path);
        if (body is not null)
            request.Content = new ByteArrayContent(body) { Headers = { ContentType = new MediaTypeHeaderValue("application/json") } };
        using var response = await http.SendAsync(request);
        await response.Content.ReadAsByteArrayAsync();
        if (expected == HttpStatusCode.BadRequest)
            Interlocked.Increment(ref counts.BadOnPurpose);
        if (response.StatusCode != expected && Interlocked.Increment(ref counts.Unexpected) == 1)
            Console.Error.WriteLine($"load: {path} answered {(int)response.StatusCode}, expected {(int)expected}");
    }

    private static (string Path, byte[]? Body, HttpStatusCode Expected) Choose(Random random) => random.Next(10) switch
    {
        0 or 1 => ("/report", null, HttpStatusCode.OK),
        2 => ($"/report?site=plant{random.Next(1, 5)}", null, HttpStatusCode.OK),
        3 => ("/aggregates", null, HttpStatusCode.OK),
        4 => ("/burn", null, HttpStatusCode.OK),
        5 => ("/readings", Batch(random, bad: true), HttpStatusCode.BadRequest),
        6 => ("/readings", Encoding.UTF8.GetBytes("[{\"sensor\":"), HttpStatusCode.BadRequest),
        7 => ("/health", null, HttpStatusCode.OK),
        _ => ("/readings", Batch(random, bad: false), HttpStatusCode.OK),
    };

    private static byte[] Batch(Random random, bool bad)
    {
        var readings = new Reading[random.Next(5, 40)];
        for (var i = 0; i < readings.Length; i++)
        {
            var name = $"plant{random.Next(1, 5)}/{Kinds[random.Next(Kinds.Length)]}-{random.Next(1, 20):00}";
            readings[i] = new Reading(name, DateTimeOffset.UnixEpoch.AddSeconds(random.Next()), random.NextDouble() * 100, "SI");
        }
        if (bad)
            readings[^1] = readings[^1] with { Sensor = "no such name" };
        return JsonSerializer.SerializeToUtf8Bytes(readings, GatewayJson.Default.ReadingArray);
    }

    private static bool TryParse(string[] args, out Uri url, out int seconds, out int clients, out int requests)
    {
        url = null!;
        seconds = 10;
        clients = 4;
        requests = MaxRequests;
        for (var i = 0; i < args.Length; i += 2)
        {
            var value = i + 1 < args.Length ? args[i + 1] : "";
            var good = args[i] switch
            {
                "--load" => Uri.TryCreate(value, UriKind.Absolute, out url!) && url.IsLoopback,
                "--seconds" => int.TryParse(value, out seconds) && seconds is > 0 and <= 3600,
                "--clients" => int.TryParse(value, out clients) && clients is > 0 and <= 64,
                "--requests" => int.TryParse(value, out requests) && requests is >= 64 and <= MaxRequests,
                _ => false,
            };
            if (good)
                continue;
            Console.Error.WriteLine($"SensorGateway: {args[i]} {value}: expected --load http://127.0.0.1:PORT [--seconds 1..3600] [--clients 1..64] [--requests 64..{MaxRequests}]");
            return false;
        }
        return true;
    }
}
