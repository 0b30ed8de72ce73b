using System.Security.Cryptography;
using System.Text.Json;

namespace SensorGateway;

/// <summary>Signs outgoing data with a key that exists as long as the process.</summary>
public sealed class Signer
{
    private readonly byte[] key = RandomNumberGenerator.GetBytes(32);

    public string Sign(List<ReportLine> lines)
    {
        var body = JsonSerializer.SerializeToUtf8Bytes(lines, GatewayJson.Default.ListReportLine);
        Span<byte> signature = stackalloc byte[HMACSHA256.HashSizeInBytes];
        HMACSHA256.HashData(key, body, signature);
        return Convert.ToHexString(signature);
    }
}
