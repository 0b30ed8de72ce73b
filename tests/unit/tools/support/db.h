/* Databases for tests. */
#ifndef DB_H
#define DB_H

#include <stdint.h>

struct sqlite3;

/* Returns the path of a database in the folder that the program's first argument names. */
char *db_path(int argc, char **argv, const char *name);

/* Removes the database and SQLite's files beside it, if they exist. */
void db_remove(const char *path);

/* The number that the statement gives in its first row; the test fails if there is none. */
int64_t db_number(struct sqlite3 *db, const char *sql);

#endif
