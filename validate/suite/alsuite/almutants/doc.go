// Package almutants holds the drivers that are wrong on purpose for package alsuite. Only programs with a self test import it;
// production code imports the suite alone.
package almutants
