using System.Diagnostics;
using System.Reflection;
using System.Runtime.CompilerServices;

namespace EdgeProf;

/// <summary>
/// Labels requests by the route that ASP.NET Core has chosen, "/orders/{id}". The name of a request's span comes too late for
/// that: the instrumentation sets it at the request's end. ASP.NET Core announces the choice to diagnostic listeners.
///   AllListeners -> OnNext(listener) -> OnNext(event) -> RouteOf -> WorkContext.NameByRoute
/// The package does not reference ASP.NET Core: programs without it would get it. In such programs the types are null.
/// </summary>
internal sealed class Routes : IObserver<DiagnosticListener>, IObserver<KeyValuePair<string, object?>>
{
    internal const string Source = "Microsoft.AspNetCore";

    private const string Matched = "Microsoft.AspNetCore.Routing.EndpointMatched";

    private static Routes? listening; // under the lock of Spans

    private readonly MethodInvoker? endpointOf, patternOf, textOf;
    private readonly Type? routeEndpoint;
    private readonly ConditionalWeakTable<object, string> known = [];
    private readonly List<IDisposable> subscriptions = [];
    private bool ended;

    /// <summary>The compiler keeps these members because their names are constants.</summary>
    private Routes()
    {
        endpointOf = Invoker(Type.GetType("Microsoft.AspNetCore.Http.EndpointHttpContextExtensions, Microsoft.AspNetCore.Http.Abstractions")
            ?.GetMethod("GetEndpoint"));
        var route = Type.GetType("Microsoft.AspNetCore.Routing.RouteEndpoint, Microsoft.AspNetCore.Routing");
        routeEndpoint = route;
        patternOf = Invoker(route?.GetProperty("RoutePattern")?.GetMethod);
        textOf = Invoker(Type.GetType("Microsoft.AspNetCore.Routing.Patterns.RoutePattern, Microsoft.AspNetCore.Routing")
            ?.GetProperty("RawText")?.GetMethod);
    }

    internal static void Listen()
    {
        if (listening is not null)
            return;
        try
        {
            var routes = new Routes();
            if (routes.endpointOf is null || routes.patternOf is null || routes.textOf is null)
                return;
            listening = routes;
            routes.Keep(DiagnosticListener.AllListeners.Subscribe(routes));
        }
        catch (Exception)
        {
            // A program without reflection (IlcDisableReflection) has no labels by route.
        }
    }

    internal static void Ignore()
    {
        listening?.End();
        listening = null;
    }

    public void OnNext(DiagnosticListener value)
    {
        if (value.Name == Source)
            Keep(value.Subscribe(this, static (name, _, _) => name == Matched));
    }

    /// <summary>Runs within the request: an exception would be the request's.</summary>
    public void OnNext(KeyValuePair<string, object?> value)
    {
        try
        {
            if (value.Key == Matched && value.Value is { } context && RouteOf(context) is { Length: > 0 } route)
                WorkContext.NameByRoute(route);
        }
        catch (Exception)
        {
            // The request keeps the label that it has.
        }
    }

    public void OnCompleted()
    {
    }

    public void OnError(Exception error)
    {
    }

    private static MethodInvoker? Invoker(MethodInfo? method) => method is null ? null : MethodInvoker.Create(method);

    private void Keep(IDisposable subscription)
    {
        lock (subscriptions)
        {
            if (!ended)
            {
                subscriptions.Add(subscription);
                return;
            }
        }
        subscription.Dispose();
    }

    private void End()
    {
        lock (subscriptions)
            ended = true;
        foreach (var subscription in subscriptions)
            subscription.Dispose();
    }

    /// <summary>Endpoints live as long as the service, so most requests find theirs. Empty: not an endpoint with a route.</summary>
    private string? RouteOf(object context)
    {
        if (endpointOf!.Invoke(null, context) is not { } endpoint)
            return null;
        if (known.TryGetValue(endpoint, out var route))
            return route;
        route = routeEndpoint!.IsInstanceOfType(endpoint) ? textOf!.Invoke(patternOf!.Invoke(endpoint)) as string : null;
        known.AddOrUpdate(endpoint, route ?? "");
        return route;
    }
}
