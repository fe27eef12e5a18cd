"""The API: models of every version, and the compiler that turns them into CustomResourceDefinitions."""
