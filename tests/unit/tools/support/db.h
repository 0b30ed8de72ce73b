/* Databases of tests. */
#ifndef DB_H
#define DB_H

/* The file and what SQLite keeps beside it; one that is not there is as well. */
void db_remove(const char *path);

#endif
