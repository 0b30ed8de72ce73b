// The native calls that the profiler brackets as waits must be ones that the framework makes in preemptive mode: one marked with
// SuppressGCTransition would keep the garbage collector waiting while the hook reads clocks and walks the stack, and its stack
// could not be walked from there. Reads the metadata of every assembly of the framework as it is compiled into programs.
//
//   Imports TARGETS FOLDER...    TARGETS: EdgeProf.targets with its <EdgeProfWrap Include="...">; assemblies in FOLDERs
using System.Reflection;
using System.Reflection.Metadata;
using System.Reflection.PortableExecutable;
using System.Xml.Linq;

if (args.Length < 2)
{
    Console.Error.WriteLine("Imports: expected EdgeProf.targets and folders with assemblies");
    return 2;
}
var wrapped = XDocument.Load(args[0]).Descendants().Where(item => item.Name.LocalName == "EdgeProfWrap")
    .SelectMany(item => item.Attribute("Include")!.Value.Split(';')).Where(name => name.StartsWith("SystemNative_"))
    .ToDictionary(name => name, _ => 0);
int assemblies = 0, suppressed = 0, bad = 0;

foreach (var path in args.Skip(1).SelectMany(folder => Directory.EnumerateFiles(folder, "*.dll", SearchOption.AllDirectories)))
{
    using var file = new PEReader(File.OpenRead(path));
    if (!file.HasMetadata)
        continue;
    var reader = file.GetMetadataReader();
    assemblies++;
    foreach (var method in reader.MethodDefinitions.Select(reader.GetMethodDefinition))
        if ((method.Attributes & MethodAttributes.PinvokeImpl) != 0)
            Look(reader, method, Path.GetFileName(path));
}

void Look(MetadataReader reader, MethodDefinition method, string assembly)
{
    var import = method.GetImport();
    var name = reader.GetString(import.Name);
    var isSuppressed = method.GetCustomAttributes().Any(handle => NameOf(reader, handle) == "SuppressGCTransitionAttribute");
    suppressed += isSuppressed ? 1 : 0;
    if (!wrapped.ContainsKey(name))
        return;
    wrapped[name]++;
    if (!isSuppressed)
        return;
    bad++;
    Console.Error.WriteLine($"Imports: {assembly} calls {name} with SuppressGCTransition: it must not be wrapped in EdgeProf.targets");
}

static string NameOf(MetadataReader reader, CustomAttributeHandle handle)
{
    var constructor = reader.GetCustomAttribute(handle).Constructor;
    return constructor.Kind switch
    {
        HandleKind.MethodDefinition => reader.GetString(reader.GetTypeDefinition(
            reader.GetMethodDefinition((MethodDefinitionHandle)constructor).GetDeclaringType()).Name),
        HandleKind.MemberReference when reader.GetMemberReference((MemberReferenceHandle)constructor).Parent is
            { Kind: HandleKind.TypeReference } parent => reader.GetString(reader.GetTypeReference((TypeReferenceHandle)parent).Name),
        _ => "",
    };
}

var absent = wrapped.Where(pair => pair.Value == 0).Select(pair => pair.Key).ToArray();
Console.WriteLine($"Imports: {wrapped.Values.Sum()} declarations of {wrapped.Count} wrapped calls in {assemblies} assemblies, {bad} of them "
    + $"among the {suppressed} with SuppressGCTransition; not in this runtime: {(absent.Length == 0 ? "none" : string.Join(' ', absent))}");
// A check that finds none of either looks in the wrong place.
return bad == 0 && suppressed > 0 && wrapped.Count > absent.Length * 2 ? 0 : 1;
