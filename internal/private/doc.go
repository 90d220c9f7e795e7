// Package private keeps other users away from what a program takes from the file system: directories that only the user
// can change, sockets that only the user can connect to, and servers that are the user's own.
//
// It trusts the user and root, nobody else. A check that succeeded stays valid, since nobody else can change what was
// checked.
package private
