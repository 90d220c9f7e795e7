package main

import (
	"fmt"
	"path"
	"strings"
)

// canFetch reports whether go get can fetch a module by its path: the first element is the name of a server.
func canFetch(module string) bool {
	server, _, _ := strings.Cut(module, "/")
	return strings.Contains(server, ".")
}

// stability returns the section of README.md on the API and on the module path.
func stability(module string) string {
	s := "The API is not frozen; [docs/compatibility.md](docs/compatibility.md) lists what may change and how a " +
		"change is visible. The module path is `" + module + "`"
	if canFetch(module) {
		return s + ": `go get " + module + "@latest`.\n"
	}
	return s + ": until the kit is published under a path that can be fetched, use a clone with `replace`, as " +
		"`ddk-validate init` does.\n"
}

// ownModule returns the section of docs/users.md on modules that use the kit.
func ownModule(module string) string {
	clone := "../" + path.Base(module)
	replace := fmt.Sprintf("go mod edit -replace=%s=%s", module, clone)
	var b strings.Builder
	if canFetch(module) {
		fmt.Fprintf(&b, "\n    go get %s@latest\n\n"+
			"To work on the kit at the same time, make your module use a clone:\n\n"+
			"    %s     # the path of the clone, from your go.mod\n", module, replace)
	} else {
		replace = strings.Replace(replace, "edit ", fmt.Sprintf("edit -require=%s@v0.0.0 ", module), 1)
		fmt.Fprintf(&b, "\nThe module path of the kit is `%s`, which `go get` cannot fetch. Clone the kit, and make "+
			"your module use the clone:\n\n    %-62s # the path of the clone, from your go.mod\n    %-62s "+
			"# after your code imports it\n", module, replace, "go mod tidy")
	}
	fmt.Fprintf(&b, "\nMake the clone a git submodule if the same relative path must work for all developers and in "+
		"CI. On one machine, `go work init . %s` is enough.\n\n", clone)
	return b.String()
}
