package main

import (
	"strings"

	"tidegate/internal/enforce"
	"tidegate/internal/route"
	"tidegate/internal/usage/routecount"
)

// pattern returns a call's path without the parts that can identify a person. It is the
// resource that API Gateway matched. If that stands for every path or is unknown, it is
// the rule's pattern, or else *.
func (c *checker) pattern(call enforce.Call, rule string) string {
	path := call.Resource
	if _, after, found := strings.Cut(path, " "); found { // an HTTP API's route key begins with the method
		path = after
	}
	if path != "" && path != "$default" && !strings.Contains(path, "+}") {
		return path
	}
	if loaded := c.Loaded(); loaded != nil && rule != "" {
		routes := loaded.Set().Routes
		for i := range routes {
			if routes[i].Name == rule && routes[i].Pattern.Path != "" {
				return routes[i].Pattern.Path
			}
		}
	}
	if path == "" {
		return "*"
	}
	return path
}

// routeOf returns what a preview of access must know of a decided call. The pattern is *
// when a path under it may be another than the caller's, as a custom domain's base path
// and encoded slashes make it.
func (c *checker) routeOf(call enforce.Call, checked *enforce.Result) routecount.Route {
	r := routecount.Route{
		Plan: checked.Plan, API: call.Route.API, Stage: call.Route.Stage,
		Method: route.NameMethod(call.Route.Method), Path: c.pattern(call, checked.Rule),
	}
	switch {
	case call.Resource == "$connect":
		r.Path = call.Route.Path
	case !strings.HasPrefix(r.Path, "/") || !route.Under(call.Route.Path, r.Path):
		r.Path = "*"
	}
	return r
}
