// Says hello and ends at the end of its input, so that a test can look at it meanwhile.
Console.WriteLine("Hello, World!");
Console.In.ReadToEnd();
