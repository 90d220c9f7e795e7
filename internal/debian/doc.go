// Package debian unpacks packages of Debian's archive, with all that they depend on, to directories of the user's
// cache. No package is installed on the machine, and no script of a package runs.
//
//	root, err := debian.Set{Name: "old", Suite: "bullseye", Packages: []string{"libc6", "perftest"}}.Root(ctx, nil)
//
// It needs the programs apt-get, dpkg-deb, tar and ldconfig, and the address of the archive in the machine's apt
// sources. Signatures are checked.
package debian
