namespace EdgeProf;

/// <summary>Work that is watched, from <see cref="Profiler.WatchSpan"/> to <see cref="Dispose"/>, which may be called on
/// another thread: <c>using (Profiler.WatchSpan("checkout")) ...</c></summary>
public readonly struct WatchedSpan : IDisposable
{
    private readonly uint token;

    internal WatchedSpan(uint token) => this.token = token;

    internal void Name(string name)
    {
        if (Features.Incidents && token != 0)
            Profiler.NameSpan(token, name);
    }

    /// <summary>The work has ended. A second call has no effect.</summary>
    public void Dispose()
    {
        if (Features.Incidents && token != 0)
            Native.SpanEnd(token);
    }
}
