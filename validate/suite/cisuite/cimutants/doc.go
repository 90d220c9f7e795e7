// Package cimutants holds drivers with one deliberate fault each for the self test of package cisuite. It covers the
// areas that declare requirements as Go values. Package mutant holds the drivers for the others. Only programs with a
// self test import it. Production code imports only the suite.
package cimutants
