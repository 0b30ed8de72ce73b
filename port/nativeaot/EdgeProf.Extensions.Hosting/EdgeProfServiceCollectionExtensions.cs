using EdgeProf.Extensions.Hosting;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Adds the profiler to a host.</summary>
public static class EdgeProfServiceCollectionExtensions
{
    /// <summary>Profiles the program while the host runs, as the section <c>EdgeProf</c> of the configuration says. The
    /// profiler starts before all hosted services, wherever this is called, and stops after them. It needs a program
    /// published with NativeAOT; elsewhere it writes one line to the log.</summary>
    /// <param name="services">The host's services.</param>
    /// <returns>The same services.</returns>
    public static IServiceCollection AddEdgeProf(this IServiceCollection services)
    {
        ArgumentNullException.ThrowIfNull(services);
        services.TryAddEnumerable(ServiceDescriptor.Singleton<IConfigureOptions<EdgeProfOptions>, EdgeProfOptionsSetup>(
            static provider => new EdgeProfOptionsSetup(provider.GetService<IConfiguration>()?.GetSection(EdgeProfOptionsSetup.Section))));
        return AddProfiler(services);
    }

    /// <summary>The same with another section.</summary>
    /// <param name="services">The host's services.</param>
    /// <param name="section">The section, such as <c>builder.Configuration.GetSection("Diagnostics:EdgeProf")</c>.</param>
    /// <returns>The same services.</returns>
    public static IServiceCollection AddEdgeProf(this IServiceCollection services, IConfiguration section)
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentNullException.ThrowIfNull(section);
        services.AddSingleton<IConfigureOptions<EdgeProfOptions>>(new EdgeProfOptionsSetup(section));
        return AddProfiler(services);
    }

    /// <summary>The same with the section <c>EdgeProf</c>, and with options from code, which win over it.</summary>
    /// <param name="services">The host's services.</param>
    /// <param name="configure">Sets options.</param>
    /// <returns>The same services.</returns>
    public static IServiceCollection AddEdgeProf(this IServiceCollection services, Action<EdgeProfOptions> configure)
    {
        ArgumentNullException.ThrowIfNull(configure);
        services.AddEdgeProf();
        return services.Configure<EdgeProfOptions>(options =>
        {
            options.IsConfigured = true;
            configure(options);
        });
    }

    private static IServiceCollection AddProfiler(IServiceCollection services)
    {
        if (services.Any(static service => service.ServiceType == typeof(EdgeProfService)))
            return services;
        services.TryAddEnumerable(ServiceDescriptor.Singleton<IValidateOptions<EdgeProfOptions>, EdgeProfOptionsValidator>());
        services.AddOptions<EdgeProfOptions>().ValidateOnStart();
        services.TryAddSingleton<EdgeProfMonitor>();
        services.AddSingleton<EdgeProfService>();
        // A host starts its services in this order, and stops them in the reverse order.
        services.Insert(0, ServiceDescriptor.Singleton<IHostedService>(static provider => provider.GetRequiredService<EdgeProfService>()));
        return services;
    }
}
