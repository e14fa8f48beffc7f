SELECT id, stars, text FROM posts WHERE shop = :shop AND language(text) = :language
