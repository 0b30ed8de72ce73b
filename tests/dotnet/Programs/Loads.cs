// What services do all day, one thing at a time, for so much CPU time of the process; set up from the environment. Prints what the process
// used and what the profiler said of its stacks: tests/dotnet/loads.py makes a table of it.
//
//   Loads NAME SECONDS
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.IO.Compression;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;
using System.Text.Json;
using System.Text.Json.Serialization;
using System.Threading;
using System.Threading.Tasks;
using EdgeProf;

internal sealed record Reading(string Sensor, double Value, DateTime At, int[] Codes);

[JsonSerializable(typeof(List<Reading>))]
internal sealed partial class ReadingContext : JsonSerializerContext;

internal static class LoadsProgram
{
    private static readonly object Gate = new();
    private static readonly List<Reading> Readings =
        [.. Enumerable.Range(0, 50).Select(i => new Reading($"pump {i}", i * 1.5, DateTime.UnixEpoch.AddHours(i), [i, i + 1, i + 2]))];
    private static readonly Dictionary<string, Action> Loads = new()
    {
        ["arithmetic"] = Arithmetic, ["JSON"] = Json, ["strings, LINQ"] = Strings, ["allocation"] = Allocate, ["collections"] = Collect, ["locks"] = Lock,
        ["async"] = () => Deeper(20).Wait(), ["exceptions"] = Throw, ["null references"] = Dereference, ["short threads"] = Threads, ["sockets"] = Echo,
        ["hashes, compression"] = Pack,
    };
    private static double sink;

    public static int Run(string[] args)
    {
        if (args.Length < 2)
        {
            Console.WriteLine(string.Join("\n", Loads.Keys));
            return 0;
        }
        var (load, end) = (Loads[args[0]], TimeSpan.FromSeconds(double.Parse(args[1], CultureInfo.InvariantCulture)));
        var workers = Enumerable.Range(0, 2).Select(_ => new Thread(() => Repeat(load, end))).ToArray();
        foreach (var worker in workers)
            worker.Start();
        foreach (var worker in workers)
            worker.Join();
        var stopped = Profiler.Stop(TimeSpan.FromSeconds(20));
        var (used, stats) = (Environment.CpuUsage.TotalTime, Profiler.GetStats());
        Console.WriteLine($"used {(used - stats.OwnCpuTime).TotalNanoseconds:F0} exact {stats.ExactStacks} gap {stats.StacksWithGap} cut {stats.CutStacks}");
        return stopped ? 0 : 1;
    }

    private static void Repeat(Action load, TimeSpan end)
    {
        while (Environment.CpuUsage.TotalTime < end)
            for (var i = 0; i < 20; i++)
                load();
    }

    private static void Arithmetic()
    {
        double sum = 0;
        for (var i = 1; i < 20_000; i++)
            sum += Math.Sqrt(i);
        sink = sum;
    }

    private static void Json()
    {
        var text = JsonSerializer.Serialize(Readings, ReadingContext.Default.ListReading);
        sink = JsonSerializer.Deserialize(text, ReadingContext.Default.ListReading)!.Count;
    }

    private static void Strings()
    {
        var words = Enumerable.Range(0, 200).Select(i => $"word {i * 7919 % 1000}").OrderBy(word => word, StringComparer.Ordinal);
        sink = string.Join(", ", words.Where(word => word.Contains('3'))).ToUpperInvariant().Split(',').Length;
    }

    private static void Allocate()
    {
        for (var i = 0; i < 1000; i++)
            GC.KeepAlive(new byte[100 + i]);
    }

    private static void Collect()
    {
        Allocate();
        GC.Collect(1, GCCollectionMode.Forced, true);
    }

    private static void Lock()
    {
        for (var i = 0; i < 1000; i++)
            lock (Gate)
                sink = Math.Sqrt(i);
        lock (Gate)
            Thread.Sleep(0);
    }

    private static async Task<int> Deeper(int depth)
    {
        await Task.Yield();
        return depth == 0 ? 0 : await Deeper(depth - 1) + 1;
    }

    private static void Throw()
    {
        try { throw new InvalidOperationException(); }
        catch (InvalidOperationException) { }
    }

    private static void Dereference()
    {
        try { sink = ((string)null!).Length; }
        catch (NullReferenceException) { }
    }

    private static void Threads()
    {
        var thread = new Thread(() => { for (var i = 0; i < 20; i++) Arithmetic(); });
        thread.Start();
        thread.Join();
    }

    private static void Echo()
    {
        using var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen(1);
        using var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        client.Connect(listener.LocalEndPoint!);
        using var server = listener.Accept();
        var message = new byte[1000];
        for (var i = 0; i < 50; i++)
        {
            client.Send(message);
            for (var got = 0; got < message.Length;)
                got += server.Receive(message);
        }
    }

    private static void Pack()
    {
        var text = Encoding.UTF8.GetBytes(string.Join(",", Enumerable.Range(0, 2000)));
        using var packed = new MemoryStream();
        using (var stream = new BrotliStream(packed, CompressionLevel.Fastest, true))
            stream.Write(text);
        using (var stream = new GZipStream(packed, CompressionLevel.Fastest, true))
            stream.Write(text);
        sink = SHA256.HashData(packed.GetBuffer()).Length;
    }
}
