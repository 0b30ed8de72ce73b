// Throws for ever and says how often so far, until a signal or a power cut ends it; set up from the environment. tests/dotnet/ends.py
// compares that with what arrives.
using System;
using System.Threading;
using EdgeProf;

internal static class CountedProgram
{
    public static int Run()
    {
        Profiler.Start(new ProfilerOptions { AllEvents = true });
        for (var count = 1; ; count++)
        {
            try
            {
                throw new CountedException();
            }
            catch (CountedException)
            {
            }
            Console.WriteLine(count);
            Thread.Sleep(20);
        }
    }
}

internal sealed class CountedException : Exception;
