package command

// Size measures a tree.
func Size(dir string) int64 { return size(dir, maxLevels) }
