namespace EdgeProf;

/// <summary>An active tag, from <see cref="Profiler.Tag"/> to <see cref="Dispose"/>. Dispose it once, in the method
/// that created it: <c>using (Profiler.Tag("tenant", name)) ...</c></summary>
public readonly struct TagScope : IDisposable
{
    private readonly TagStep? step;

    internal TagScope(TagStep step) => this.step = step;

    /// <summary>Ends the tag.</summary>
    public void Dispose()
    {
        if (step is not null)
            WorkContext.Pop(step);
    }
}
