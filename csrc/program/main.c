/* spurproc-exec: the static program that stands between clone and the job. */
int main(void)
{
    return 127;
}
