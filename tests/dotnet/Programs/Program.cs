// The programs of these tests in one executable, because publishing costs far more than running: make links it under each
// name, and the name that it was started by says which program runs. On CoreCLR the first argument says it.

var name = Path.GetFileName(Environment.GetCommandLineArgs()[0]);
if (name == "Programs.dll")
    (name, args) = (args[0], args[1..]);
return name switch
{
    "Context" => await ContextProgram.Run(args),
    "Counted" => CountedProgram.Run(),
    "Heap" => HeapProgram.Run(args),
    "Incidents" => Slow.Run(args),
    "Kinds" => KindsProgram.Run(args),
    "Lifecycle" => LifecycleProgram.Run(args),
    "Loads" => LoadsProgram.Run(args),
    "Names" => await NamesProgram.Run(args),
    "Native" => NativeProgram.Run(args),
    "Published" => await Published.RunAsync(),
    "Waits" => WaitsProgram.Run(args),
    "Workload" => WorkloadProgram.Run(),
    _ => throw new ArgumentException($"no program is called {name}"),
};
