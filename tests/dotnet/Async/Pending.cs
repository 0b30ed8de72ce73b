using EdgeProf;

namespace Orders
{
    internal static class Db
    {
        public static async Task<int> ReadAsync(Task<int> row) => await row + 1;
    }

    internal static class Pricing
    {
        public static async ValueTask<long> SumAsync(Task<int> row) => await Db.ReadAsync(row).ConfigureAwait(false);
    }

    internal static class Api
    {
        public static async Task CheckoutAsync(Task<int> row) => await Pricing.SumAsync(row);

        public static async Task BatchAsync(Task<int> row) =>
            await Task.WhenAll(Db.ReadAsync(row), Db.ReadAsync(row), Clock.PauseAsync());
    }

    internal static class Clock
    {
        public static async Task PauseAsync() => await Task.Delay(TimeSpan.FromHours(1));
    }

    internal static class Gate
    {
        public static readonly SemaphoreSlim Closed = new(0);

        public static async Task EnterAsync() => await Closed.WaitAsync();

        public static async void Forget() => await EnterAsync();
    }
}

namespace Async
{
    using Orders;

    /// <summary>Methods that wait in known ways, for `edgeprof tasks`. Reads commands: "open" completes what the database reads
    /// wait for, "busy" starts work that goes on, "heap N" keeps N objects more, "check" says whether all results are right, the
    /// end of the input ends the program.</summary>
    internal static class Pending
    {
        private static readonly List<object> Kept = new();

        private static void Abandon()
        {
            for (var i = 0; i < 500; i++)
                _ = Api.CheckoutAsync(new TaskCompletionSource<int>().Task);
        }

        private static async Task Busy()
        {
            for (;;)
            {
                Kept[0] = new byte[5000];
                await Task.Yield();
            }
        }

        public static int Run()
        {
            Profiler.Start(new ProfilerOptions());
            var row = new TaskCompletionSource<int>(TaskCreationOptions.RunContinuationsAsynchronously);
            var rows = new List<TaskCompletionSource<int>>();
            var work = new List<Task>();
            Kept.Add(work);
            Kept.Add(rows);
            Kept.Add(work);
            for (var i = 0; i < 123; i++)
            {
                rows.Add(new TaskCompletionSource<int>(TaskCreationOptions.RunContinuationsAsynchronously));
                work.Add(Api.CheckoutAsync(rows[i].Task));
            }
            for (var i = 0; i < 7; i++)
                work.Add(Api.BatchAsync(row.Task));
            for (var i = 0; i < 40; i++)
                work.Add(Clock.PauseAsync());
            for (var i = 0; i < 5; i++)
                Gate.Forget();
            for (var i = 0; i < 1000; i++)
                work.Add(Api.CheckoutAsync(Task.FromResult(i)));
            Abandon();
            Console.WriteLine("ready");
            while (Console.ReadLine() is { } line)
            {
                if (line == "open")
                {
                    rows.ForEach(static one => one.SetResult(1));
                    Task.WhenAll(work.Take(123)).Wait();
                }
                else if (line == "busy")
                {
                    for (var i = 0; i < 3; i++)
                        work.Add(Task.Run(Busy));
                }
                else if (line.StartsWith("heap ", StringComparison.Ordinal))
                {
                    var all = new object[int.Parse(line[5..])];
                    for (var i = 0; i < all.Length; i++)
                        all[i] = new long[4];
                    Kept.Add(all);
                }
                Console.WriteLine(line);
            }
            GC.KeepAlive(row);
            return work.Take(123).All(static one => one.IsCompletedSuccessfully) ? 0 : 1;
        }
    }
}
