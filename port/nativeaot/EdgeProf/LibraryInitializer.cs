namespace Internal.Runtime.CompilerHelpers;

/// <summary>The startup of a NativeAOT program calls this when the compiler is told so (--initassembly), as it does for the
/// runtime's own libraries: build/EdgeProf.targets, for languages that have no module initializers. Otherwise the code is
/// not in the program. The compiler knows it by its names.</summary>
internal static class LibraryInitializer
{
    public static void InitializeLibrary() => EdgeProf.Profiler.StartFromEnvironment();
}
