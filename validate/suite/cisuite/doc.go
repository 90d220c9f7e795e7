// Package cisuite holds the cases that test a driver through package ci alone. Each area is a function in a file of its
// own that returns its cases and requirements, and is listed in areas.go. Package validate describes the form of cases,
// under "For authors of cases".
package cisuite
