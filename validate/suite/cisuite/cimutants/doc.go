// Package cimutants holds drivers that are wrong on purpose for package cisuite, for the areas that declare requirements as Go
// values. The others are in package mutant. Only programs with a self test import it; production code imports the suite alone.
package cimutants
