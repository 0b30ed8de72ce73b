// Refers to enough of .NET that compiling it takes seconds; never run.
using var client = new HttpClient();
Console.WriteLine(await client.GetStringAsync(args[0]));
