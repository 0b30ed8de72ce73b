namespace EdgeProf;

/// <summary>A tag in force, from <see cref="Profiler.Tag"/> to <see cref="Dispose"/>. Dispose it once, in the method that
/// made it: <c>using (Profiler.Tag("tenant", name)) ...</c></summary>
public readonly struct TagScope : IDisposable
{
    private readonly Step? step;

    internal TagScope(Step step) => this.step = step;

    /// <summary>The tag is in force no more.</summary>
    public void Dispose()
    {
        if (step is not null)
            Work.Pop(step);
    }
}
