"""The policy of one supervised step: the host, and the supervisor that it forks for each. Program `spurstepd`."""
